import { Controller, Get, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import type { Config } from '#apps/platform';
import type { Service } from './service.js';

@Controller('health')
class HealthController {
  @Get('ready')
  ready() {
    return { status: 'ready' };
  }
}

@Module({ controllers: [HealthController] })
class WaymarkModule {}

/** The API, the projections and the reactions in one process, listening. */
export async function startApp(config: Config): Promise<Service<{ url: string }>> {
  const adapter = new FastifyAdapter();
  const app = await NestFactory.create<NestFastifyApplication>(WaymarkModule, adapter, { logger: false });
  await app.listen(config.port, config.host);
  return { ready: { url: await app.getUrl() }, close: () => app.close() };
}
