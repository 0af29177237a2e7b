import { BadSetting, Config } from './index.js';

describe('settings', () => {
  it('have a value without being set, also when set to nothing', () => {
    const config = Config.from({ WAYMARK_PORT: '', PATH: '/bin' });
    expect(config).toMatchObject({
      host: '127.0.0.1',
      port: 3000,
      dataFolder: './data',
      eventStoreUrl: undefined,
      stateLimit: 12_582_912,
      workerStateLimit: 12_582_912,
      twoPersonLimit: { amount: '50000.00', currency: 'USD' },
      executeWithinSeconds: 86_400,
      logLevel: 'info',
    });
  });

  it('are read as what they are', () => {
    const config = Config.from({
      WAYMARK_PORT: '0',
      WAYMARK_STATE_LIMIT: '64 KiB',
      WAYMARK_TWO_PERSON_LIMIT: '100.50 EUR',
      WAYMARK_EVENTSTORE_URL: 'esdb://127.0.0.1:2113?tls=false',
    });
    expect(config).toMatchObject({
      port: 0,
      stateLimit: 65_536,
      twoPersonLimit: { amount: '100.50', currency: 'EUR' },
      eventStoreUrl: 'esdb://127.0.0.1:2113?tls=false',
    });
  });

  it.each([
    ['WAYMARK_PORT', '70000', 'a whole number from 0 to 65535'],
    ['WAYMARK_PORT', '3e3', 'a whole number from 0 to 65535'],
    ['WAYMARK_STATE_LIMIT', '12 GB', 'a size such as'],
    ['WAYMARK_STATE_LIMIT', '16 MiB', 'from 1024 to 15728640 bytes'],
    ['WAYMARK_TWO_PERSON_LIMIT', 'much', 'an amount with its currency, such as'],
    ['WAYMARK_TWO_PERSON_LIMIT', '50000.00', 'an amount with its currency, such as'],
    ['WAYMARK_TWO_PERSON_LIMIT', '1 USD more', 'an amount with its currency, such as'],
    ['WAYMARK_MONGODB_URL', 'http://here', 'mongodb://'],
    ['LOG_LEVEL', 'loud', 'one of trace, debug, info'],
  ])('%s cannot be %s', (name, value, allowed) => {
    const read = () => Config.from({ [name]: value });
    expect(read).toThrow(BadSetting);
    expect(read).toThrow(new RegExp(`${name} is "${value}"; expected: (?!.*expected).*${allowed}`));
  });

  it('names every one that is wrong', () => {
    expect(() => Config.from({ WAYMARK_PORT: 'x', LOG_LEVEL: 'y' })).toThrow(/WAYMARK_PORT[^]*LOG_LEVEL/);
  });

  it('take an endpoint for each tenant, and never show its secret', () => {
    const secret = `whsec_${Buffer.alloc(24, 1).toString('base64')}`;
    const acme = { url: 'https://example.org/hook', secret };
    const webhooks = (value: unknown) => Config.from({ WAYMARK_WEBHOOKS: JSON.stringify(value) }).webhooks;
    expect(webhooks({ acme })).toEqual({ acme });
    expect(Config.from({}).webhooks).toEqual({});
    for (const bad of [
      { ACME: acme },
      { acme: { ...acme, url: 'ftp://example.org' } },
      { acme: { ...acme, secret: 'short' } },
      [acme],
    ]) {
      expect(() => webhooks(bad)).toThrow(
        /WAYMARK_WEBHOOKS is set to something else; expected: a JSON object/,
      );
      expect(() => webhooks(bad)).not.toThrow(/short|AQEB|example/);
    }
    expect(() => Config.from({ WAYMARK_WEBHOOKS: '{' })).toThrow(/WAYMARK_WEBHOOKS is set to something else/);
  });
});
