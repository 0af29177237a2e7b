export { ReactorModule, Reactions } from './reactor.module.js';
