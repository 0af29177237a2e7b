import { Module } from '@nestjs/common';
import { ApiModule, createHttpApp } from '#apps/api';
import { createLog, StoresModule } from '#apps/platform';
import type { Config } from '#apps/settings';
import { appendingThread } from '#libs/event-store';
import { BackgroundModule } from './background.js';
import { openDataFolder } from './data-folder.js';
import type { Service } from './service.js';

@Module({})
class WaymarkModule {}

/** The API, listening, with what appends, and the projections and the reactions, in threads beside it. */
export async function startApp(config: Config): Promise<Service<{ url: string }>> {
  await openDataFolder(config.dataFolder);
  const log = createLog(config);
  const imports = [
    StoresModule.with(config, log, { appending: appendingThread }),
    ApiModule,
    BackgroundModule,
  ];
  const app = await createHttpApp({ module: WaymarkModule, imports }, { log });
  await app.listen(config.port, config.host);
  return { ready: { url: await app.getUrl() }, close: () => app.close() };
}
