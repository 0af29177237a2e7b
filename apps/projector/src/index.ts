export { ProjectorModule, Projections } from './projector.module.js';
