export { defineProjection, foldAll, project, Unprojectable } from './projection.js';
export type { Fold, Notice, Projection, Recorded, View } from './projection.js';
export type { Delivery, EventLog } from './event-log.js';
export { answered, ReadModels, ReadModelUnavailable } from './read-models.js';
export type { ReadModel } from './read-models.js';
export { projectionSpecification, recordedInTurns } from './specification.js';
export type { Subject } from './specification.js';
export { InvalidCursor, Views } from './views.js';
export type { Page, PageRequest } from './views.js';
