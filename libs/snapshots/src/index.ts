export { MongoSnapshots } from './mongo-snapshots.js';
