export { BadSetting, Config, settings } from '#apps/settings';
export { Clock } from './clock.js';
export { createLog, Log, nestLogger } from './logger.js';
export { Metrics } from './metrics.js';
export { RunningProjections } from './projections.js';
export type { ProjectionStatus, RunningProjection } from './projections.js';
export { Rechecks } from './rechecks.js';
export { noticeIn, StoresModule } from './stores.module.js';
export { standingIn } from './staff.js';
