import type { LoggerService } from '@nestjs/common';
import { type DestinationStream, type Logger, pino } from 'pino';
import type { Config } from '#apps/settings';

/**
 * The log: one JSON line each on standard output. Bodies, tokens and personal data are never handed to it; what
 * could carry them by mistake is redacted all the same.
 */
export function createLog(config: Pick<Config, 'logLevel'>, destination?: DestinationStream): Logger {
  const options = {
    level: config.logLevel,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: {
      paths: ['authorization', '*.authorization', 'token', '*.token', 'body', '*.body'],
      remove: true,
    },
  };
  return destination ? pino(options, destination) : pino(options);
}

/** The class by which the log is injected: `constructor(private readonly log: Log)`. */
export abstract class Log {
  abstract trace(fields: object, text: string): void;
  abstract debug(fields: object, text: string): void;
  abstract info(fields: object, text: string): void;
  abstract warn(fields: object, text: string): void;
  abstract error(fields: object, text: string): void;
}

/** Nest's own lines, into the same log. Its routine start-up lines are of level `debug`. */
export function nestLogger(log: Log): LoggerService {
  const line =
    (level: 'debug' | 'warn' | 'error') =>
    (message: unknown, ...rest: unknown[]) =>
      log[level]({ nest: rest.filter((part) => typeof part === 'string') }, textOf(message));
  return {
    log: line('debug'),
    debug: line('debug'),
    verbose: line('debug'),
    warn: line('warn'),
    error: line('error'),
  };
}

function textOf(message: unknown): string {
  if (message instanceof Error) return message.message;
  return typeof message === 'string' ? message : JSON.stringify(message);
}
