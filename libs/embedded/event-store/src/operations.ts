import { credentials, type sendUnaryData } from '@grpc/grpc-js';
import { randomUUID } from 'node:crypto';
import { type Caller, isOperator } from './access/callers.js';
import { accessDenied, messageOf } from './errors.js';
import { operations, operationsService } from './protocol.js';
import type { Scavenger } from './scavenge.js';

const { OperationsClient, OperationsService } = operationsService;
const { ScavengeResult } = operations.ScavengeResp;
type Asking = { readonly caller: Caller };
type Answer = sendUnaryData<InstanceType<typeof operations.ScavengeResp>>;

/** Of `Operations`, what there is here; the rest answers UNIMPLEMENTED. */
export const OPERATIONS = {
  startScavenge: OperationsService.startScavenge,
  stopScavenge: OperationsService.stopScavenge,
};

/** Starting answers at once, with the id of the scavenge that runs already if one does; its outcome is a notice. */
export function operationHandlers(scavenger: Scavenger, onNotice: (notice: string) => void) {
  let id = '';
  const respond = (answer: Answer, result: 0 | 1 | 2): void =>
    answer(null, new operations.ScavengeResp().setScavengeId(id).setScavengeResult(result));
  return {
    startScavenge: ({ caller }: Asking, answer: Answer): void => {
      if (!isOperator(caller)) return answer(accessDenied());
      if (scavenger.isRunning) return respond(answer, ScavengeResult.INPROGRESS);
      id = randomUUID();
      scavenger.run().then(
        ({ events, bytes }) => onNotice(`scavenging removed ${events} events and freed ${bytes} bytes`),
        (error: unknown) => onNotice(`scavenging ended early: ${messageOf(error)}`),
      );
      respond(answer, ScavengeResult.STARTED);
    },
    stopScavenge: ({ caller }: Asking, answer: Answer): void => {
      if (!isOperator(caller)) return answer(accessDenied());
      void scavenger.stop().then(() => respond(answer, ScavengeResult.STOPPED));
    },
  };
}

/** Asks a running event store to scavenge; false if it does already. `address` is `host:port`, without TLS. */
export function requestScavenge(address: string): Promise<boolean> {
  const client = new OperationsClient(address, credentials.createInsecure());
  return new Promise<boolean>((resolve, reject) =>
    client.startScavenge(new operations.StartScavengeReq(), (error, answer) => {
      client.close();
      if (error) reject(error);
      else resolve(answer.getScavengeResult() === ScavengeResult.STARTED);
    }),
  );
}
