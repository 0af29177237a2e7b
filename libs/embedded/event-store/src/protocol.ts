/**
 * The generated message classes and service definitions of the client, the only description of the protocol here.
 * They are CommonJS that fills `exports` at run time, so each is taken whole.
 */
import gossip from '@eventstore/db-client/generated/gossip_pb.js';
import gossipService from '@eventstore/db-client/generated/gossip_grpc_pb.js';
import code from '@eventstore/db-client/generated/code_pb.js';
import features from '@eventstore/db-client/generated/serverfeatures_pb.js';
import featuresService from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js';
import persistent from '@eventstore/db-client/generated/persistent_pb.js';
import persistentService from '@eventstore/db-client/generated/persistent_grpc_pb.js';
import operations from '@eventstore/db-client/generated/operations_pb.js';
import operationsService from '@eventstore/db-client/generated/operations_grpc_pb.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import statusMessages from '@eventstore/db-client/generated/status_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import streamsService from '@eventstore/db-client/generated/streams_grpc_pb.js';
import any from 'google-protobuf/google/protobuf/any_pb.js';
import empty from 'google-protobuf/google/protobuf/empty_pb.js';

export {
  any,
  code,
  empty,
  features,
  featuresService,
  gossip,
  gossipService,
  persistent,
  persistentService,
  operations,
  operationsService,
  shared,
  statusMessages,
  streams,
  streamsService,
};
