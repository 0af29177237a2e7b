export { Installation, later, Server, waymarkProgram } from './waymark.js';
export type { Caller, Ran, Role, Who } from './waymark.js';
export { call } from './http.js';
export type { Answered } from './http.js';
export { StreamReader } from './streams.js';
export type { Stored } from './streams.js';
