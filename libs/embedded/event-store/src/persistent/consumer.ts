import type { Failure } from '../errors.js';
import type { Outlet } from '../outlet.js';
import { encodeReadEvent } from '../wire.js';
import type { Resolved } from '../views.js';
import type { Consumer } from './strategies.js';

/** An event on its way through a group. */
export interface Message extends Resolved {
  /** What acknowledges it: the id of the link, or of the event where there is none, as a map key. */
  readonly key: string;
  /** Its place in the group's source; undefined for a parked event that is tried again. */
  readonly place: number | undefined;
  /** Its number in the parked stream, if it comes from there. */
  readonly parked: number | undefined;
  /** Deliveries before this one. */
  retries: number;
  client?: GroupClient;
  /** When it was last sent, and when that is too long ago: milliseconds since the epoch. */
  sentAt: number;
  dueAt: number;
}

/** Who is connected, as the information about a group shows it. */
export interface Peer {
  readonly from: string;
  readonly username: string;
  readonly connectionName: string;
}

const MEASURED = 1000;

/** Bytes of unanswered events beyond which a client is given no more, however many slots it has. */
const IN_FLIGHT_BYTES = 16 * 1024 * 1024;

/** One connection to a group. It holds at most `slots` events that are not yet answered. */
export class GroupClient implements Consumer {
  readonly inFlight = new Set<Message>();
  readonly connectedAt = Date.now();
  totalItems = 0;
  private bytes = 0;
  /** Milliseconds from delivery to acknowledgement, newest last; kept where extra statistics are asked for. */
  readonly measured: number[] = [];

  constructor(
    readonly outlet: Outlet,
    readonly slots: number,
    readonly peer: Peer,
  ) {}

  get hasRoom(): boolean {
    const { full, closed } = this.outlet;
    return this.inFlight.size < this.slots && this.bytes < IN_FLIGHT_BYTES && !full && !closed;
  }

  send(message: Message): void {
    message.client = this;
    this.inFlight.add(message);
    this.bytes += bytesOf(message);
    this.totalItems += 1;
    this.outlet.hold(bytesOf(message));
    this.outlet.write(encodeReadEvent(message.event, message.link, message.retries));
  }

  /** Takes the message back: it was answered, was too late, or the client is gone. */
  release(message: Message): void {
    message.client = undefined;
    if (!this.inFlight.delete(message)) return;
    this.bytes -= bytesOf(message);
    if (!this.outlet.closed) this.outlet.release(bytesOf(message));
  }

  measure(milliseconds: number): void {
    if (this.measured.push(milliseconds) > MEASURED) this.measured.shift();
  }

  drop(failure: Failure): void {
    this.outlet.fail(failure);
  }
}

export const bytesOf = ({ event, link }: Resolved): number => (event?.length ?? 0) + (link?.length ?? 0);
