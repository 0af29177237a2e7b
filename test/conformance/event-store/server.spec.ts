import { EventStoreDBClient, UnavailableError, UnknownError } from '@eventstore/db-client';
import featuresService from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js';
import gossip from '@eventstore/db-client/generated/gossip_pb.js';
import gossipService from '@eventstore/db-client/generated/gossip_grpc_pb.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import { credentials } from '@grpc/grpc-js';
import { type Subject, all, errorOf, event, newStream, startSubject } from './subject.js';

let subject: Subject;
let address: string;
beforeAll(async () => {
  subject = await startSubject();
  address = new URL(subject.url.replace(/^esdb(\+discover)?:/, 'http:')).host;
});
afterAll(() => subject.stop());

it('lists every method it serves, in lower case, with the features that clients look for', async () => {
  const client = new featuresService.ServerFeaturesClient(address, credentials.createInsecure());
  const listed = await new Promise<Record<string, string[]>>((resolve, reject) =>
    client.getSupportedMethods(new shared.Empty(), (error, answer) => {
      if (error) return reject(error);
      const methods = answer.getMethodsList();
      resolve(
        Object.fromEntries(
          methods.map((one) => [`${one.getServiceName()}/${one.getMethodName()}`, one.getFeaturesList()]),
        ),
      );
    }),
  );
  client.close();
  const streams = ['read', 'append', 'batchappend', 'delete', 'tombstone'];
  expect(Object.keys(listed)).toEqual(
    expect.arrayContaining(streams.map((method) => `event_store.client.streams.streams/${method}`)),
  );
  expect(listed['event_store.client.streams.streams/batchappend']).toEqual(['deadline_duration']);
  const groups = 'event_store.client.persistent_subscriptions.persistentsubscriptions';
  for (const method of ['create', 'update', 'delete', 'read'])
    expect(listed[`${groups}/${method}`]).toContain('all');
  for (const method of ['getinfo', 'replayparked', 'list'])
    expect(listed[`${groups}/${method}`]).toEqual(expect.arrayContaining(['stream', 'all']));
  expect(listed).toHaveProperty([`${groups}/restartsubsystem`]);
});

it('gossips of itself as one living leader at an address that can be reached', async () => {
  const client = new gossipService.GossipClient(address, credentials.createInsecure());
  const info = await new Promise<InstanceType<typeof gossip.ClusterInfo>>((resolve, reject) =>
    client.read(new shared.Empty(), (error, answer) => (error ? reject(error) : resolve(answer))),
  );
  client.close();
  const members = info.getMembersList().map((one) => ({
    alive: one.getIsAlive(),
    state: one.getState(),
    at: `${one.getHttpEndPoint()!.getAddress()}:${one.getHttpEndPoint()!.getPort()}`,
  }));
  expect(members).toEqual([{ alive: true, state: gossip.MemberInfo.VNodeState.LEADER, at: address }]);
});

it('is found by discovery', async () => {
  const stream = newStream();
  const client = EventStoreDBClient.connectionString(`esdb+discover://${address}?tls=false`);
  await client.appendToStream(stream, event(1));
  expect(await all(client.readStream(stream))).toHaveLength(1);
  await client.dispose();
});

it('shares one channel among the first calls of a client', async () => {
  const client = EventStoreDBClient.connectionString(subject.url);
  const streams = [newStream(), newStream()];
  await Promise.all([
    ...streams.map((stream) => client.appendToStream(stream, event(1))),
    all(client.readAll({ maxCount: 1 })),
  ]);
  for (const stream of streams) expect(await all(client.readStream(stream))).toHaveLength(1);
  await client.dispose();
});

it('answers UNIMPLEMENTED for what it does not serve, and goes on', async () => {
  if (process.env['WAYMARK_EVENTSTORE_URL']) return;
  const refused = await errorOf(subject.client.createProjection('mine', 'fromAll()'));
  expect(refused).toBeInstanceOf(UnknownError);
  expect(String(refused)).toContain('UNIMPLEMENTED');
  expect((await subject.client.appendToStream(newStream(), event(1))).success).toBe(true);
});

it('is UNAVAILABLE where nobody listens', async () => {
  const client = EventStoreDBClient.connectionString('esdb://127.0.0.1:1?tls=false');
  expect(await errorOf(all(client.readAll({ maxCount: 1 })))).toBeInstanceOf(UnavailableError);
  await client.dispose();
});
