import type { sendUnaryData } from '@grpc/grpc-js';
import { randomUUID } from 'node:crypto';
import type { Caller, Callers } from './access/callers.js';
import { AccessLists, LOG } from './access/lists.js';
import { BatchAppendCall } from './batch-appends.js';
import { classicAppend, expectedOf } from './classic-appends.js';
import {
  CallFailed,
  accessDenied,
  failureOf,
  invalidArgument,
  streamDeleted,
  unavailable,
  wrongExpectedVersion,
} from './errors.js';
import { OPERATIONS, operationHandlers } from './operations.js';
import { OpenCalls, type Outlet } from './outlet.js';
import { InvalidRequest, refusesWrites, streamName } from './proposed.js';
import { PERSISTENT, PERSISTENT_FEATURES, persistentCalls } from './persistent/calls.js';
import { PersistentSubscriptions } from './persistent/registry.js';
import {
  features,
  featuresService,
  gossip,
  gossipService,
  shared,
  streams,
  streamsService,
} from './protocol.js';
import { type ReadOptions, readAll, readStream } from './reads.js';
import type { Answer, EventStore } from './store.js';
import { type Expected, isMetadataStream } from './streams.js';
import type { RpcCall } from './rpc-call.js';
import { RpcServer, type TlsOptions } from './rpc-server.js';
import type { Scavenger } from './scavenge.js';
import { type SubscriptionOutcome, subscribe } from './subscriptions.js';

/** What the server says it is; clients of this protocol choose their paths by the method list, not by this. */
const SERVER_VERSION = '23.10.8';
const MIB = 1024 * 1024;
const LIMITS = {
  /** A chunk of a batched append is up to 3 MiB and one event. */
  receiveBytes: 20 * MIB,
  callsPerConnection: 1000,
  calls: 10_000,
  connections: 1000,
  firstCallMs: 30_000,
};
/** What is held for one client, and for twice as many: unless one append may have more. */
const HELD = 256 * MIB;

type ReadCall = RpcCall<InstanceType<typeof streams.ReadReq>, Buffer>;
type DeleteReq = InstanceType<typeof streams.DeleteReq> | InstanceType<typeof streams.TombstoneReq>;
type DeleteResp = InstanceType<typeof streams.DeleteResp> | InstanceType<typeof streams.TombstoneResp>;
type Run = (name: string, expected: Expected) => Promise<Answer>;

const asIs = (bytes: Buffer): Buffer => bytes;
const { StreamsService } = streamsService;
/** Answers of reads, and both sides of batched appends, pass as bytes to the codec of this room. */
const STREAMS = {
  ...StreamsService,
  read: { ...StreamsService.read, responseSerialize: asIs },
  batchAppend: { ...StreamsService.batchAppend, requestDeserialize: asIs, responseSerialize: asIs },
};
const SERVICES = [
  STREAMS,
  PERSISTENT,
  OPERATIONS,
  featuresService.ServerFeaturesService,
  gossipService.GossipService,
];

export interface StoreServerOptions {
  readonly store: EventStore;
  readonly scavenger: Scavenger;
  readonly maxAppendBytes: number;
  readonly host: string;
  readonly tls: TlsOptions | undefined;
  /** Nobody is asked without it. */
  readonly callers: Callers | undefined;
  readonly onNotice: (notice: string) => void;
}

/** Serves one store over gRPC. Everything that is not implemented answers UNIMPLEMENTED by itself. */
export class StoreServer {
  private readonly server: RpcServer;
  private readonly calls = new OpenCalls();
  private readonly groups: PersistentSubscriptions;
  private readonly access: AccessLists;
  private readonly store: EventStore;
  private stopping = false;
  private port = 0;
  private readonly instanceId = randomUUID();

  constructor(private readonly options: StoreServerOptions) {
    const { store, maxAppendBytes, scavenger, onNotice } = options;
    this.store = store;
    this.access = new AccessLists(store);
    this.groups = new PersistentSubscriptions(store);
    this.server = rpcServer(options);
    const { calls, access } = this;
    this.server.addService(STREAMS, {
      read: (call: ReadCall) => void this.read(call),
      append: (...args: Parameters<StoreServer['append']>) => this.append(...args),
      batchAppend: (call: RpcCall<Buffer, Buffer>) =>
        void new BatchAppendCall(call, { store, maxAppendBytes, calls, access }),
      delete: this.deletion((name, expected) => store.delete(name, expected), deleteResponse),
      tombstone: this.deletion((name, expected) => store.tombstone(name, expected), tombstoneResponse),
    });
    this.server.addService(PERSISTENT, persistentCalls(this.groups, { store, calls, access }));
    this.server.addService(OPERATIONS, operationHandlers(scavenger, onNotice));
    this.server.addService(featuresService.ServerFeaturesService, {
      getSupportedMethods: (_call: unknown, callback: sendUnaryData<unknown>) =>
        callback(null, supportedMethods()),
    });
    this.server.addService(gossipService.GossipService, {
      read: ({ authority }: RpcCall, callback: sendUnaryData<unknown>) =>
        callback(null, this.clusterInfo(authority)),
    });
  }

  /** Answers the port that it listens on. Throws `PortTaken`. */
  async listen(port: number): Promise<number> {
    return (this.port = await this.server.listen(port, this.options.host));
  }

  /** Refuses what is new, lets queued appends be answered, then ends every open call with UNAVAILABLE. */
  async stop(): Promise<void> {
    this.stopping = true;
    await this.groups.close();
    await this.store.drain();
    this.calls.failAll(unavailable('the event store is stopping'));
    await this.server.stop();
  }

  private async read(call: ReadCall): Promise<void> {
    const outlet = this.calls.open(call);
    try {
      const options = call.request.getOptions();
      if (this.stopping) outlet.fail(unavailable('the event store is stopping'));
      else if (!options?.hasUuidOption())
        outlet.fail(invalidArgument('the read must say in which form it wants ids'));
      else if (options.hasStream() || options.hasAll()) await this.serve(call.caller, options, outlet);
      else outlet.fail(invalidArgument('the read must name a stream or all'));
    } catch (error) {
      outlet.fail(error instanceof InvalidRequest ? invalidArgument(error.message) : failureOf(error));
    }
  }

  private async serve(caller: Caller, options: ReadOptions, outlet: Outlet): Promise<void> {
    const name = options.hasStream() ? nameOf(options.getStream()!) : undefined;
    const allowed = (): boolean => this.access.may(caller, '$r', name ?? LOG);
    if (!allowed()) throw new CallFailed(accessDenied());
    let outcome: 'done' | SubscriptionOutcome = 'done';
    if (options.hasSubscription()) outcome = await subscribe(this.store, options, outlet, allowed);
    else if (name !== undefined) outcome = await readStream(this.store, name, options, outlet);
    else await readAll(this.store, options, outlet);
    if (outcome === 'stream-deleted') outlet.fail(streamDeleted(name ?? ''));
    else if (outcome === 'access-denied') outlet.fail(accessDenied());
    else outlet.end();
  }

  private append(
    call: RpcCall<InstanceType<typeof streams.AppendReq>, InstanceType<typeof streams.AppendResp>>,
    callback: sendUnaryData<InstanceType<typeof streams.AppendResp>>,
  ): void {
    if (this.stopping) callback(unavailable('the event store is stopping'));
    else classicAppend({ ...this.options, access: this.access }, call, callback);
  }

  /** Delete and tombstone have the same request and answer but for their names. */
  private deletion(run: Run, response: (position: string) => DeleteResp) {
    return (call: RpcCall<DeleteReq, DeleteResp>, callback: sendUnaryData<DeleteResp>): void => {
      void this.delete(call, run).then(
        (position) => callback(null, response(String(position))),
        (error: unknown) => callback(failureOf(error)),
      );
    };
  }

  /** Answers the position of what was written, or throws the failure of the call. */
  private async delete({ request, caller }: RpcCall<DeleteReq>, run: Run): Promise<number> {
    const options = request.getOptions();
    if (this.stopping) throw new CallFailed(unavailable('the event store is stopping'));
    if (!options) throw new CallFailed(invalidArgument('the request must carry its options'));
    const name = nameOf(options);
    if (refusesWrites(name) || isMetadataStream(name)) throw new CallFailed(accessDenied());
    this.access.demand(caller, '$d', name);
    const expected = expectedOf(options);
    const answer = await run(name, expected);
    if (answer.kind === 'stream-deleted') throw new CallFailed(streamDeleted(name));
    if (answer.kind === 'wrong-revision')
      throw new CallFailed(wrongExpectedVersion(name, expected, answer.last));
    return answer.position;
  }

  /** The address is the one by which the client came: others may not lead here from where it is. */
  private clusterInfo(authority: string): InstanceType<typeof gossip.ClusterInfo> {
    const [, named, port] = AUTHORITY.exec(authority) ?? [];
    const endPoint = new gossip.EndPoint()
      .setAddress(named ?? this.options.host)
      .setPort(port === undefined ? this.port : Number(port));
    const member = new gossip.MemberInfo()
      .setInstanceId(new shared.UUID().setString(this.instanceId))
      .setTimeStamp(String(BigInt(Date.now()) * 10_000n))
      .setState(gossip.MemberInfo.VNodeState.LEADER)
      .setIsAlive(true)
      .setHttpEndPoint(endPoint);
    return new gossip.ClusterInfo().setMembersList([member]);
  }
}

/** Host and port; an IPv6 address stands in brackets. */
const AUTHORITY = /^(?:\[?)(.+?)(?:\]?):(\d{1,5})$/;

function rpcServer({ maxAppendBytes, tls, callers, onNotice }: StoreServerOptions): RpcServer {
  const heldPerConnection = Math.max(HELD, 4 * maxAppendBytes);
  return new RpcServer({
    limits: { ...LIMITS, heldPerConnection, held: 2 * heldPerConnection },
    onNotice,
    tls,
    ...(callers && { authenticate: (authorization) => callers.callerOf(authorization) }),
  });
}

interface Named {
  getStreamIdentifier(): InstanceType<typeof shared.StreamIdentifier> | undefined;
}

/** Throws `InvalidRequest`. */
const nameOf = (options: Named): string =>
  streamName(options.getStreamIdentifier()?.getStreamName_asU8() ?? new Uint8Array());

/** Sections 1.1 and 1.2: names in lower case, or the client takes the slower path for every append. */
function supportedMethods(): InstanceType<typeof features.SupportedMethods> {
  const methods = SERVICES.flatMap((service) => Object.values<{ path: string }>(service)).map(({ path }) => {
    const [, service = '', method = ''] = path.toLowerCase().split('/');
    return new features.SupportedMethod()
      .setServiceName(service)
      .setMethodName(method)
      .setFeaturesList(FEATURES[service]?.[method] ?? []);
  });
  return new features.SupportedMethods().setEventStoreServerVersion(SERVER_VERSION).setMethodsList(methods);
}

const FEATURES: Record<string, Record<string, string[]>> = {
  'event_store.client.streams.streams': { batchappend: ['deadline_duration'] },
  'event_store.client.persistent_subscriptions.persistentsubscriptions': PERSISTENT_FEATURES,
};

function deleteResponse(position: string): DeleteResp {
  const at = new streams.DeleteResp.Position().setCommitPosition(position).setPreparePosition(position);
  return new streams.DeleteResp().setPosition(at);
}

function tombstoneResponse(position: string): DeleteResp {
  const at = new streams.TombstoneResp.Position().setCommitPosition(position).setPreparePosition(position);
  return new streams.TombstoneResp().setPosition(at);
}
