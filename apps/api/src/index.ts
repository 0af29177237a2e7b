export { ApiModule } from './api.module.js';
export { createHttpApp } from './http-app.js';
