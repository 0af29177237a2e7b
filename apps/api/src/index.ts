export { ApiModule } from './api.module.js';
export { createHttpApp } from './http-app.js';
export { commandIdOf } from './understanding.js';
export type { CommandPlace } from './understanding.js';
export { declaredRoutes } from './declared-routes.js';
export { accessPage } from './operations/access-page.js';
