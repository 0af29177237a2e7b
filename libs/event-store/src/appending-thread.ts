import { parentPort, workerData } from 'node:worker_threads';
import { ClientAppends } from './appends.js';
import { serveAppends } from './appends-elsewhere.js';

/** The thread that `appendingThread` begins: it appends until it is told to close. */
if (parentPort === null) throw new Error('this runs as a thread');
const { url, answerMs } = workerData as { url: string; answerMs?: number };
serveAppends(parentPort, new ClientAppends(url, answerMs));
