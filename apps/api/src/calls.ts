import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Identity, judge, type Subject, type Verdict } from '#libs/access';
import { notFound, notPermitted } from './problems.js';
import type { RouteSpec } from './routes.js';

/** What a command carries beside its body. */
export interface CommandIdentity {
  readonly commandId: string;
  /** A keyed digest: equal for equal bodies, and telling nothing of them. */
  readonly bodyDigest: string;
  /** Whether the caller gave a key, so that a repeat can be told from a new request. */
  readonly keyed: boolean;
  readonly expectedRevision: bigint | undefined;
  /** The secret of the lease that the command takes, so that a repeat is answered with the same one. */
  readonly leaseSecret: () => string;
}

/** A request that was understood: who asks, for what, when. The policy of its route has still to be asked. */
export class Call<Body = unknown, Query = unknown> {
  private asked = false;

  constructor(
    readonly spec: RouteSpec,
    readonly who: Identity,
    readonly params: Readonly<Record<string, string>>,
    readonly query: Query,
    readonly body: Body,
    /** When it arrived: ISO 8601 in UTC with milliseconds. */
    readonly at: string,
    readonly command: CommandIdentity,
    readonly leaseToken: string | undefined,
    readonly minPosition: bigint | undefined,
    readonly reply: FastifyReply,
  ) {}

  /** A parameter of the path. */
  param(name: string): string {
    const value = this.params[name];
    if (value === undefined) throw new Error(`the route has no parameter ${name}`);
    return value;
  }

  /** Asks the policy of the route about a record. */
  judge(subject: Subject): Verdict {
    this.asked = true;
    return judge(this.spec.permit, this.who, subject);
  }

  /** Goes on only if the policy says yes. */
  demand(subject: Subject): void {
    const verdict = this.judge(subject);
    if (verdict === 'hidden') throw notFound();
    if (verdict === 'forbidden') throw notPermitted();
  }

  /** Nothing is answered before the policy was asked: a handler that forgets it fails for everyone. */
  refuseUnasked(): void {
    if (!this.asked) throw new Error(`no policy was asked for ${this.spec.permit}`);
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    identity: Identity | null;
    call: Call | null;
  }
}

/** The understood request, as a parameter of a controller's method. */
export const Called = createParamDecorator((_data: unknown, context: ExecutionContext): Call => {
  const { call } = context.switchToHttp().getRequest<FastifyRequest>();
  if (call === null) throw new Error('the route takes no call');
  return call;
});
