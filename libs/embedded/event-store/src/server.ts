import type { sendUnaryData } from '@grpc/grpc-js';
import { randomUUID } from 'node:crypto';
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
import { OPERATIONS, type operationHandlers } from './operations.js';
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
import { RpcServer } from './rpc-server.js';
import { subscribe } from './subscriptions.js';

/** What the server says it is; clients of this protocol choose their paths by the method list, not by this. */
const SERVER_VERSION = '23.10.8';
const LIMITS = {
  /** A chunk of a batched append is up to 3 MiB and one event. */
  receiveBytes: 20 * 1024 * 1024,
  callsPerConnection: 10_000,
  connections: 1000,
};

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

/** Serves one store over gRPC. Everything that is not implemented answers UNIMPLEMENTED by itself. */
export class StoreServer {
  private readonly server: RpcServer;
  private readonly calls = new OpenCalls();
  private readonly groups: PersistentSubscriptions;
  private stopping = false;
  private port = 0;
  private readonly instanceId = randomUUID();

  constructor(
    private readonly store: EventStore,
    private readonly maxAppendBytes: number,
    private readonly host: string,
    operations: ReturnType<typeof operationHandlers>,
    onNotice: (notice: string) => void,
  ) {
    this.server = new RpcServer(LIMITS, onNotice);
    this.server.addService(STREAMS, {
      read: (call: ReadCall) => void this.read(call),
      append: (...args: Parameters<StoreServer['append']>) => this.append(...args),
      batchAppend: (call: RpcCall<Buffer, Buffer>) =>
        void new BatchAppendCall(call, this.store, this.maxAppendBytes, this.calls),
      delete: this.deletion((name, expected) => this.store.delete(name, expected), deleteResponse),
      tombstone: this.deletion((name, expected) => this.store.tombstone(name, expected), tombstoneResponse),
    });
    this.groups = new PersistentSubscriptions(store);
    this.server.addService(PERSISTENT, persistentCalls(this.groups, store, this.calls));
    this.server.addService(OPERATIONS, operations);
    this.server.addService(featuresService.ServerFeaturesService, {
      getSupportedMethods: (_call: unknown, callback: sendUnaryData<unknown>) =>
        callback(null, supportedMethods()),
    });
    this.server.addService(gossipService.GossipService, {
      read: (_call: unknown, callback: sendUnaryData<unknown>) => callback(null, this.clusterInfo()),
    });
  }

  /** Answers the port that it listens on. Throws `PortTaken`. */
  async listen(port: number): Promise<number> {
    return (this.port = await this.server.listen(port, this.host));
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
      else if (options.hasStream() || options.hasAll()) await this.serve(options, outlet);
      else outlet.fail(invalidArgument('the read must name a stream or all'));
    } catch (error) {
      outlet.fail(error instanceof InvalidRequest ? invalidArgument(error.message) : failureOf(error));
    }
  }

  private async serve(options: ReadOptions, outlet: Outlet): Promise<void> {
    let outcome: 'done' | 'closed' | 'stream-deleted' = 'done';
    if (options.hasSubscription()) outcome = await subscribe(this.store, options, outlet);
    else if (options.hasStream()) outcome = await readStream(this.store, options, outlet);
    else await readAll(this.store, options, outlet);
    if (outcome === 'stream-deleted') {
      const name = options.getStream()?.getStreamIdentifier()?.getStreamName_asU8() ?? new Uint8Array();
      outlet.fail(streamDeleted(streamName(name)));
    } else outlet.end();
  }

  private append(
    call: RpcCall<InstanceType<typeof streams.AppendReq>, InstanceType<typeof streams.AppendResp>>,
    callback: sendUnaryData<InstanceType<typeof streams.AppendResp>>,
  ): void {
    if (this.stopping) callback(unavailable('the event store is stopping'));
    else classicAppend(this.store, this.maxAppendBytes, call, callback);
  }

  /** Delete and tombstone have the same request and answer but for their names. */
  private deletion(run: Run, response: (position: string) => DeleteResp) {
    return (call: RpcCall<DeleteReq, DeleteResp>, callback: sendUnaryData<DeleteResp>): void => {
      void this.delete(call.request, run).then(
        (position) => callback(null, response(String(position))),
        (error: unknown) => callback(failureOf(error)),
      );
    };
  }

  /** Answers the position of what was written, or throws the failure of the call. */
  private async delete(request: DeleteReq, run: Run): Promise<number> {
    const options = request.getOptions();
    if (this.stopping) throw new CallFailed(unavailable('the event store is stopping'));
    if (!options) throw new CallFailed(invalidArgument('the request must carry its options'));
    const name = streamName(options.getStreamIdentifier()?.getStreamName_asU8() ?? new Uint8Array());
    if (refusesWrites(name) || isMetadataStream(name)) throw new CallFailed(accessDenied());
    const expected = expectedOf(options);
    const answer = await run(name, expected);
    if (answer.kind === 'stream-deleted') throw new CallFailed(streamDeleted(name));
    if (answer.kind === 'wrong-revision')
      throw new CallFailed(wrongExpectedVersion(name, expected, answer.last));
    return answer.position;
  }

  private clusterInfo(): InstanceType<typeof gossip.ClusterInfo> {
    const endPoint = new gossip.EndPoint().setAddress(this.host).setPort(this.port);
    const member = new gossip.MemberInfo()
      .setInstanceId(new shared.UUID().setString(this.instanceId))
      .setTimeStamp(String(BigInt(Date.now()) * 10_000n))
      .setState(gossip.MemberInfo.VNodeState.LEADER)
      .setIsAlive(true)
      .setHttpEndPoint(endPoint);
    return new gossip.ClusterInfo().setMembersList([member]);
  }
}

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
