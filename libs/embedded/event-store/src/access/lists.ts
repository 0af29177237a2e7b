import { CallFailed, accessDenied } from '../errors.js';
import { ALL_STREAM } from '../proposed.js';
import type { EventStore } from '../store.js';
import { type AccessList, type Right, accessList, isMetadataStream, ownerOfMetadata } from '../streams.js';
import { newest } from '../views.js';
import { type Caller, EVERYBODY, isAdmin } from './callers.js';

const SETTINGS = '$settings';

/** The lists that hold where a stream has none of its own, from `$settings`. */
interface Defaults {
  readonly user: AccessList;
  readonly system: AccessList;
}

/**
 * Who may do what with a stream, section 3.7. A list of the stream's own metadata (`$acl`) comes before the one of
 * `$settings`, and that before what is usual: streams whose names begin with `$`, and the whole log, are for admins,
 * others for every user. What counts is what is durable when it is asked.
 */
export class AccessLists {
  constructor(private readonly store: EventStore) {}

  may(caller: Caller, right: Right, stream: string): boolean {
    if (isAdmin(caller)) return true;
    const roles = caller.roles();
    if (roles.length === 0) return false;
    return this.listed(right, stream).some((role) => roles.includes(role));
  }

  /** Throws the failure `access-denied`. */
  demand(caller: Caller, right: Right, stream: string): void {
    if (!this.may(caller, right, stream)) throw new CallFailed(accessDenied());
  }

  private listed(right: Right, stream: string): readonly string[] {
    if (isMetadataStream(stream)) return this.listed(right === '$r' ? '$mr' : '$mw', ownerOfMetadata(stream));
    const system = stream.startsWith('$');
    const { [system ? 'system' : 'user']: defaults } = this.settings();
    const own = this.store.metadataOf(stream).access ?? {};
    return own[right] ?? defaults[right] ?? [system ? '$admins' : EVERYBODY];
  }

  private settings(): Defaults {
    const document = newest(this.store, SETTINGS)?.data;
    if (!document) return NOTHING;
    return {
      user: accessList(document, '$userStreamAcl'),
      system: accessList(document, '$systemStreamAcl'),
    };
  }
}

const NOTHING: Defaults = { user: {}, system: {} };

/** The right to the whole log is that to a system stream. */
export const LOG = ALL_STREAM;
