import { unmarkedFields } from '#libs/decider';
import { danaRegistered, registerDana, staffChanged, tenant } from '#libs/domain/examples';
import { type StaffEvent, staffEvents, staffStream } from '#libs/domain/staff';
import { ProjectionRunner, compareWithFold, projectionSpecification } from '#libs/projecting';
import { TestStores } from '#test/projecting';
import { type StaffEntry, staffEntry } from './document.js';
import { staffRegister } from './projector.js';
import { StaffQueries } from './queries.js';

const { given } = projectionSpecification<StaffEntry, StaffEvent>(staffRegister);
const samRegistered: StaffEvent = {
  type: 'StaffRegistered',
  data: { ...danaRegistered.data, sub: 'sam', roles: ['supervisor'] },
};

describe('the staff register', () => {
  it('declares what becomes of every stored staff event, and holds no personal text', () => {
    expect(Object.keys(staffRegister.fold).sort()).toEqual(Object.keys(staffEvents).sort());
    expect(unmarkedFields(staffEntry)).toEqual([]);
    expect(staffRegister.personal).toEqual([]);
  });

  it('keeps what was said last of each person, and who said it first', () => {
    const { then } = given(
      { id: 'dana', events: [danaRegistered, staffChanged] },
      { id: 'sam', events: [samRegistered] },
    );
    const { registeredBy, registeredAt } = danaRegistered.data;
    expect(then('dana')).toEqual({ ...staffChanged.data, registeredBy, registeredAt });
    expect(then('sam')).toEqual(samRegistered.data);
    expect(staffEntry.safeParse(then('dana')).success).toBe(true);
  });
});

describe('reading the register', () => {
  let stores: TestStores;
  beforeAll(async () => {
    stores = await TestStores.start();
  });
  afterAll(() => stores.close());

  it('lists the people of one tenant, and knows whether a supervisor is active', async () => {
    const queries = new StaffQueries(stores);
    const runner = new ProjectionRunner(staffRegister, stores);
    runner.start();
    let said = 0;
    const register = async (change: Partial<typeof registerDana>, of = tenant) => {
      const command = { ...registerDana, ...change };
      const context = {
        actor: { sub: 'sam', roles: ['supervisor'], actFor: [] },
        commandId: `00000000-0000-5000-8000-00000000000${++said}`,
        bodyDigest: 'test',
        at: command.at,
      };
      const call = { tenant: of, id: command.sub, context, command, creates: true, answer: () => null };
      const { position } = await stores.log.handle(staffStream, call);
      expect(await runner.waitFor(position, 5_000)).toBe(true);
    };
    await register({});
    await register({ sub: 'A.b_c@d:e|f+g-h', roles: ['supervisor'] }, 'globex');
    expect([await queries.hasSupervisor(tenant), await queries.hasSupervisor('globex')]).toEqual([
      false,
      true,
    ]);
    await register({ sub: 'sue', roles: ['supervisor'] });
    expect(await queries.hasSupervisor(tenant)).toBe(true);
    await register({ sub: 'sue', roles: ['supervisor'], active: false });
    expect(await queries.hasSupervisor(tenant)).toBe(false);
    const { items } = await queries.list(tenant, { limit: 10 });
    expect(items.map(({ sub, active, revision }) => [sub, active, revision])).toEqual([
      ['sue', false, '1'],
      ['dana', true, '0'],
    ]);
    await runner.stop();
    expect(await compareWithFold(staffRegister, stores)).toMatchObject({
      missing: [],
      extra: [],
      differing: [],
    });
  });
});
