import type { sendUnaryData } from '@grpc/grpc-js';
import { type Caller, isOperator, isUser } from '../access/callers.js';
import type { AccessLists } from '../access/lists.js';
import type { BatchAppendOptions } from '../batch-appends.js';
import {
  CallFailed,
  accessDenied,
  failureOf,
  invalidArgument,
  persistentFailure,
  unavailable,
} from '../errors.js';
import type { Outlet } from '../outlet.js';
import { ALL_STREAM, InvalidRequest, streamName, uuidBytes, uuidFromHalves } from '../proposed.js';
import { persistent, persistentService, type shared } from '../protocol.js';
import type { RpcCall } from '../rpc-call.js';
import type { EventStore } from '../store.js';
import { readiness } from '../views.js';
import { GroupClient, type Peer } from './consumer.js';
import type { Group, NackAction } from './group.js';
import { infoOf } from './info.js';
import type { PersistentSubscriptions } from './registry.js';
import { requested } from './settings.js';

type ReadReq = InstanceType<typeof persistent.ReadReq>;
type ReadCall = RpcCall<ReadReq, Buffer>;
type Unary<Request, Response> = (
  call: Pick<RpcCall<Request, Response>, 'request' | 'caller'>,
  callback: sendUnaryData<Response>,
) => void;

const asIs = (bytes: Buffer): Buffer => bytes;
const { PersistentSubscriptionsService } = persistentService;

/** Deliveries pass as bytes to the codec of this room. */
export const PERSISTENT = {
  ...PersistentSubscriptionsService,
  read: { ...PersistentSubscriptionsService.read, responseSerialize: asIs },
};

/** What clients look for before they use a call, section 1.2. */
export const PERSISTENT_FEATURES: Record<string, string[]> = {
  create: ['all'],
  update: ['all'],
  delete: ['all'],
  read: ['all'],
  getinfo: ['stream', 'all'],
  replayparked: ['stream', 'all'],
  list: ['stream', 'all'],
};

/** What a client may hold unanswered, however much it asks for: the store keeps all of it in memory. */
const MOST_SLOTS = 2000;

interface Target {
  hasAll(): boolean;
  getStreamIdentifier(): InstanceType<typeof shared.StreamIdentifier> | undefined;
}

const streamOf = (target: Target): string =>
  target.hasAll()
    ? ALL_STREAM
    : streamName(target.getStreamIdentifier()?.getStreamName_asU8() ?? new Uint8Array());

/** Throws `InvalidRequest` for a request without options. */
function optionsOf<Options>(request: { getOptions(): Options | undefined }): Options {
  const options = request.getOptions();
  if (!options) throw new InvalidRequest('the request must carry its options');
  return options;
}

/** Answers a call with one message, or with the failure that its work ended in. */
const unary =
  <Request, Response>(
    allowed: (caller: Caller) => boolean,
    work: (request: Request) => Response | Promise<Response>,
  ): Unary<Request, Response> =>
  (call, callback) => {
    if (!allowed(call.caller)) return callback(accessDenied());
    Promise.resolve(call.request)
      .then(work)
      .then(
        (response) => callback(null, response),
        (error: unknown) =>
          callback(error instanceof InvalidRequest ? invalidArgument(error.message) : failureOf(error)),
      );
  };

/** The calls of `PersistentSubscriptions`, section 6; who may make them, section 6.2. */
export function persistentCalls(
  groups: PersistentSubscriptions,
  { store, calls, access }: Omit<BatchAppendOptions, 'maxAppendBytes'>,
) {
  const position = (): number => store.catalogue.lastPosition;
  return {
    create: unary(isOperator, async (request: InstanceType<typeof persistent.CreateReq>) => {
      await groups.create(requested(optionsOf(request), position()));
      return new persistent.CreateResp();
    }),
    update: unary(isOperator, async (request: InstanceType<typeof persistent.UpdateReq>) => {
      await groups.update(requested(optionsOf(request), position()));
      return new persistent.UpdateResp();
    }),
    delete: unary(isOperator, async (request: InstanceType<typeof persistent.DeleteReq>) => {
      const options = optionsOf(request);
      await groups.delete(streamOf(options), options.getGroupName());
      return new persistent.DeleteResp();
    }),
    getInfo: unary(isUser, async (request: InstanceType<typeof persistent.GetInfoReq>) => {
      const options = optionsOf(request);
      await readiness(store, streamOf(options));
      const group = groups.find(streamOf(options), options.getGroupName());
      return new persistent.GetInfoResp().setSubscriptionInfo(infoOf(group));
    }),
    list: unary(isUser, async (request: InstanceType<typeof persistent.ListReq>) => {
      const one = optionsOf(request).getListForStream();
      const stream = one && (one.hasAll() ? ALL_STREAM : nameOf(one.getStream()));
      for (const { config } of groups.list(stream)) await readiness(store, config.stream);
      return new persistent.ListResp().setSubscriptionsList(groups.list(stream).map(infoOf));
    }),
    replayParked: unary(isOperator, async (request: InstanceType<typeof persistent.ReplayParkedReq>) => {
      const options = optionsOf(request);
      const [stream, name] = [streamOf(options), options.getGroupName()];
      const stopAt = options.hasStopAt() ? Number(options.getStopAt()) : undefined;
      if (stopAt !== undefined && stopAt < 0)
        throw new CallFailed(persistentFailure('failed', stream, name, 'cannot stop a replay before 0'));
      await groups.replay(stream, name, stopAt);
      return new persistent.ReplayParkedResp();
    }),
    restartSubsystem: unary(isOperator, async (request: InstanceType<typeof shared.Empty>) => {
      await groups.restart();
      return request;
    }),
    read: (call: ReadCall) => void new ReadPersistent(call, groups, { store, access }, calls.open(call)),
  };
}

const nameOf = (identifier: InstanceType<typeof shared.StreamIdentifier> | undefined): string =>
  streamName(identifier?.getStreamName_asU8() ?? new Uint8Array());

/** One client of a group: its first message says which, the others acknowledge. */
class ReadPersistent {
  private group: Promise<Group> | undefined;
  private client: GroupClient | undefined;

  constructor(
    private readonly call: ReadCall,
    private readonly groups: PersistentSubscriptions,
    private readonly room: { readonly store: EventStore; readonly access: AccessLists },
    private readonly outlet: Outlet,
  ) {
    call.on('data', (request: ReadReq) => {
      this.receive(request).catch((error: unknown) =>
        outlet.fail(error instanceof InvalidRequest ? invalidArgument(error.message) : failureOf(error)),
      );
    });
    call.on('end', () => outlet.end());
  }

  private async receive(request: ReadReq): Promise<void> {
    if (this.outlet.closed) return;
    if (this.room.store.draining) throw new CallFailed(unavailable('the event store is stopping'));
    const options = request.getOptions();
    if (options) {
      if (this.group) throw new InvalidRequest('the options must come once, first');
      this.group = this.connect(options);
    }
    if (!this.group) throw new InvalidRequest('the first message must carry the options');
    const group = await this.group;
    const [ack, nack] = [request.getAck(), request.getNack()];
    if (ack) group.ack(this.client!, ack.getIdsList().map(keyOf));
    if (nack)
      group.nack(this.client!, nack.getIdsList().map(keyOf), actionOf(nack.getAction()), nack.getReason());
  }

  private connect(options: InstanceType<typeof persistent.ReadReq.Options>): Promise<Group> {
    const [stream, group] = [streamOf(options), options.getGroupName()];
    this.room.access.demand(this.call.caller, '$r', stream);
    const confirmation = new persistent.ReadResp.SubscriptionConfirmation().setSubscriptionId(
      `${stream}::${group}`,
    );
    const slots = options.getBufferSize();
    if (slots < 1) throw new InvalidRequest(`buffer_size must be at least 1, not ${slots}`);
    return this.groups.connect(stream, group, () => {
      this.outlet.write(
        Buffer.from(new persistent.ReadResp().setSubscriptionConfirmation(confirmation).serializeBinary()),
      );
      this.client = new GroupClient(this.outlet, Math.min(slots, MOST_SLOTS), peerOf(this.call));
      return this.client;
    });
  }
}

function peerOf(call: Pick<ReadCall, 'metadata' | 'getPeer' | 'caller'>): Peer {
  const [name = ''] = call.metadata.get('connection-name');
  return { from: call.getPeer(), username: call.caller.name, connectionName: name.toString() };
}

/** The id as `Message.key` has it; one that is no UUID is nobody's. */
function keyOf(id: InstanceType<typeof shared.UUID>): string {
  const halves = id.getStructured();
  const bytes = halves
    ? uuidFromHalves(BigInt(halves.getMostSignificantBits()), BigInt(halves.getLeastSignificantBits()))
    : uuidBytes(id.getString());
  return bytes?.toString('latin1') ?? '';
}

/** Stopping means no more than skipping, and what is unknown is tried again (section 6.4). */
function actionOf(action: ReturnType<InstanceType<typeof persistent.ReadReq.Nack>['getAction']>): NackAction {
  const { PARK, SKIP, STOP } = persistent.ReadReq.Nack.Action;
  if (action === PARK) return 'park';
  return action === SKIP || action === STOP ? 'skip' : 'retry';
}
