import { Test, type TestingModule } from '@nestjs/testing';
import { Clock, Config, Metrics, StoresModule, createLog } from '#apps/platform';
import { receiptNumberOf, claimStream } from '#libs/domain/claims';
import { seconds, tenant } from '#libs/domain/examples';
import { claimIdOf } from '#libs/domain/losses';
import { TestStores, grantedRun } from '#test/projecting';
import { ReactorModule, Reactions } from './reactor.module.js';

class Afternoon extends Clock {
  override now(): number {
    return Date.parse(seconds(700));
  }
}

describe('the reactor', () => {
  let stores: TestStores;
  let app: TestingModule;

  beforeAll(async () => {
    stores = await TestStores.start();
    const config = Config.from({ ...stores.environment, LOG_LEVEL: 'silent' });
    const imports = [StoresModule.with(config, createLog(config), { clock: new Afternoon() }), ReactorModule];
    app = await Test.createTestingModule({ imports }).compile();
    await app.init();
  });
  afterAll(async () => {
    await app.close();
    await stores.close();
  });

  it('files what is granted while the application runs', async () => {
    const runId = '3f1a4c1e-0b55-4f0e-9a55-0a7d5a1f0009';
    const { position } = await grantedRun(stores, runId);
    const reactions = app.get(Reactions);
    expect(await reactions.waitFor('file-approved-claim', position, 5_000)).toBe(true);
    const claimId = claimIdOf(tenant, runId, 'collision');
    const keys = await stores.vault.tenant(tenant);
    const claim = await stores.log.fold(claimStream, tenant, claimId);
    expect(claim?.state.filed).toMatchObject({
      receiptNumber: receiptNumberOf(keys.hmac('receipt', claimId)),
      filedAt: seconds(700),
    });
    const text = await app.get(Metrics).metrics();
    expect(text).toContain('waymark_reaction_handled{reaction="file-approved-claim"} 1');
    expect(text).toContain('waymark_reaction_dead_letters{reaction="file-approved-claim"} 0');
  });
});
