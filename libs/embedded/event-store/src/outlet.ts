import type { Failure } from './errors.js';

/** What of an `RpcCall` is needed here. */
interface Call {
  on(event: 'cancelled' | 'drain', listener: () => void): unknown;
  emit(event: 'error', failure: Failure): boolean;
  write(message: Buffer): boolean;
  end(): unknown;
  hold(bytes: number): boolean;
  release(bytes: number): void;
}

/**
 * The answering side of a streaming call. Nothing is queued here beyond what the call itself holds (64 KiB): a
 * writer that finds `full` waits for `room`. After the client left or the call was failed, writes do nothing.
 */
export class Outlet {
  closed = false;
  full = false;
  private waiting: (() => void)[] = [];
  private listeners: (() => void)[] = [];

  constructor(private readonly call: Call) {
    const close = (): void => this.close();
    call.on('cancelled', close);
    call.on('drain', () => {
      this.full = false;
      this.wake();
    });
  }

  write(message: Buffer): void {
    if (!this.closed) this.full = !this.call.write(message);
  }

  /** Resolves when the client has taken enough for more to be written, or is gone; `held` bytes are kept until then. */
  async room(held = 0): Promise<void> {
    if (!this.full || this.closed || !this.call.hold(held)) return;
    await new Promise<void>((resolve) => this.waiting.push(resolve));
    this.call.release(held);
  }

  /** See `RpcCall.hold`: false when the call has failed over it. */
  hold(bytes: number): boolean {
    return this.call.hold(bytes);
  }

  release(bytes: number): void {
    this.call.release(bytes);
  }

  /** Calls `listener` once, when the call ends for whatever reason; at once if it has. */
  whenClosed(listener: () => void): void {
    if (this.closed) listener();
    else this.listeners.push(listener);
  }

  /** Ends the call well. */
  end(): void {
    if (this.closed) return;
    this.close();
    this.call.end();
  }

  fail(failure: Failure): void {
    if (this.closed) return;
    this.close();
    this.call.emit('error', failure);
  }

  private close(): void {
    if (this.closed) return;
    this.closed = true;
    this.wake();
    for (const listener of this.listeners.splice(0)) listener();
  }

  private wake(): void {
    for (const resolve of this.waiting.splice(0)) resolve();
  }
}

/** The streaming calls that are open, so that stopping can end each with a status. */
export class OpenCalls {
  private readonly outlets = new Set<Outlet>();

  open(call: Call): Outlet {
    const outlet = new Outlet(call);
    this.outlets.add(outlet);
    outlet.whenClosed(() => this.outlets.delete(outlet));
    return outlet;
  }

  failAll(failure: Failure): void {
    for (const outlet of [...this.outlets]) outlet.fail(failure);
  }
}
