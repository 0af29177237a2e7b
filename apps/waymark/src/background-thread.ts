import { parentPort } from 'node:worker_threads';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Config, createLog, Metrics, nestLogger, RunningProjections, StoresModule } from '#apps/platform';
import { ProjectorModule } from '#apps/projector';
import { ReactorModule } from '#apps/reactor';
import type { Question } from './background.js';
import { answerOn } from './questions.js';

@Module({})
class BackgroundThreadModule {}

/** The thread that `Background` begins: it answers until it is told to stop, and then drains and ends. */
const port = parentPort;
if (port === null) throw new Error('this runs as a thread of the app');
const config = Config.from(process.env);
const log = createLog(config);
const imports = [StoresModule.with(config, log), ProjectorModule, ReactorModule];
const context = await NestFactory.createApplicationContext(
  { module: BackgroundThreadModule, imports },
  { logger: nestLogger(log), abortOnError: false },
);
const running = context.get(RunningProjections);
const metrics = context.get(Metrics);

async function answer(question: Question): Promise<unknown> {
  if (question.of === 'names') return running.names();
  if (question.of === 'metrics') return metrics.metrics();
  const projection = running.find(question.name);
  if (question.of === 'status') return projection?.status();
  if (question.of === 'order') return projection?.order(question.order);
  return projection?.waitFor(question.position, question.milliseconds);
}

answerOn(port, answer);
port.on('message', (message: unknown) => {
  if (message === 'stop') void context.close().then(() => port.close());
});
