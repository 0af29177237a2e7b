/** Runs the built event store on the folder of its argument and prints the address, for a test to kill it. */
import { startEventStore } from '#libs/embedded/event-store';

const store = await startEventStore({ folder: process.argv[2], port: 0, segmentBytes: 256 * 1024 });
process.stdout.write(`${store.url}\n`);
