import { Module } from '@nestjs/common';
import { ApiModule, createHttpApp } from '#apps/api';
import { type Clock, createLog, StoresModule } from '#apps/platform';
import { ProjectorModule } from '#apps/projector';
import { ReactorModule } from '#apps/reactor';
import type { Config } from '#apps/settings';
import type { Service } from './service.js';

@Module({})
class WaymarkModule {}

/** The API, the projections and the reactions in one process, listening. */
export async function startApp(config: Config, clock?: Clock): Promise<Service<{ url: string }>> {
  const log = createLog(config);
  const imports = [StoresModule.with(config, log, clock), ApiModule, ProjectorModule, ReactorModule];
  const app = await createHttpApp({ module: WaymarkModule, imports }, { log });
  await app.listen(config.port, config.host);
  return { ready: { url: await app.getUrl() }, close: () => app.close() };
}
