import { Test, type TestingModule } from '@nestjs/testing';
import { Config, Metrics, RunningProjections, StoresModule, createLog } from '#apps/platform';
import { currentCheckpoints } from '#projections/current-checkpoints';
import { TestStores, grantedRun } from '#test/projecting';
import { ProjectorModule } from './projector.module.js';

describe('the projector', () => {
  let stores: TestStores;
  let app: TestingModule;

  beforeAll(async () => {
    stores = await TestStores.start();
    const config = Config.from({ ...stores.environment, LOG_LEVEL: 'silent' });
    const imports = [StoresModule.with(config, createLog(config)), ProjectorModule];
    app = await Test.createTestingModule({ imports }).compile();
    await app.init();
  });
  afterAll(async () => {
    await app.close();
    await stores.close();
  });

  const measured = async (name: string) => {
    const text = await app.get(Metrics).metrics();
    return text.split('\n').find((line) => line.startsWith(`${name}{projection="current-checkpoints"}`));
  };

  it('keeps the projections current with the application, and P83: outlives an event that cannot be applied', async () => {
    const projection = app.get(RunningProjections).find(currentCheckpoints.name)!;
    await stores.append('run-acme.odd', { type: 'RunBurnt', data: {} });
    const { position } = await grantedRun(stores, '3f1a4c1e-0b55-4f0e-9a55-0a7d5a1f0009');
    expect(await projection.waitFor(position, 5_000)).toBe(true);
    expect(await projection.status()).toMatchObject({
      name: 'current-checkpoints',
      version: 3,
      deadLetters: 1,
    });
    expect(await measured('waymark_projection_events')).toMatch(/ 6$/);
    expect(await measured('waymark_projection_stalled')).toMatch(/ 0$/);
    expect((await app.get(RunningProjections).statuses()).map(({ name }) => name)).toEqual([
      'current-checkpoints',
      'authoritative-claims',
      'staff-register',
      'preference-profiles',
    ]);
  });
});
