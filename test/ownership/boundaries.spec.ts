import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

const root = resolve(__dirname, '../..');

/** Every rule, with a file that breaks it and what that file imports. */
const planted: Record<string, [file: string, imports: string]> = {
  'everything-resolves': ['apps/api/src/lost.ts', '#libs/nowhere'],
  'no-cycles': ['libs/vault/src/index.ts', './ring.js'],
  'front-doors-only': ['apps/api/src/deep.ts', '../../../libs/event-store/src/inner.js'],
  'canonical-knows-nothing': ['libs/canonical/src/planted.ts', '#libs/decider'],
  'decider-knows-canonical': ['libs/decider/src/planted.ts', '#libs/vault'],
  'rules-know-rules': ['libs/domain/runs/src/planted.ts', '#libs/event-store'],
  'rules-need-only-zod': ['libs/domain/runs/src/clock.ts', 'node:timers'],
  'vault-seals-for-others': ['libs/vault/src/planted.ts', '#libs/event-store'],
  'event-store-knows-no-domain': ['libs/event-store/src/planted.ts', '#libs/domain/runs'],
  'leases-and-snapshots-are-small': ['libs/leases/src/planted.ts', '#libs/projecting'],
  'projecting-knows-no-domain': ['libs/projecting/src/planted.ts', '#libs/domain/runs'],
  'conversations-are-no-stream': ['libs/conversations/src/planted.ts', '#libs/domain/runs'],
  'payloads-know-no-domain': ['libs/payloads/src/planted.ts', '#libs/domain/runs'],
  'facts-know-rules': ['libs/facts/src/planted.ts', '#libs/event-store'],
  'access-is-pure': ['libs/access/src/planted.ts', '#libs/event-store'],
  'access-is-asked-by-apps': ['libs/planted/src/planted.ts', '#libs/access'],
  'projections-stand-alone': [
    'projections/current-checkpoints/src/planted.ts',
    '#projections/authoritative-claims',
  ],
  'projectors-are-pure': ['projections/current-checkpoints/src/projector.ts', 'node:fs'],
  'front-door-hides-the-store': ['projections/current-checkpoints/src/index.ts', './store.js'],
  'apps-are-on-top': ['libs/planted/src/upward.ts', '#apps/platform'],
  'apps-meet-in-platform': ['apps/reactor/src/planted.ts', '#apps/api'],
  'nest-stops-at-apps': ['libs/event-store/src/nest.ts', '@nestjs/common'],
  'event-store-client-has-one-home': ['libs/projecting/src/client.ts', '@eventstore/db-client'],
  'mongodb-driver-has-few-homes': ['projections/current-checkpoints/src/driver.ts', 'mongodb'],
  'engines-know-nothing-of-ours': ['libs/embedded/event-store/src/planted.ts', '#libs/canonical'],
  'engines-are-run-by-the-command-line': ['apps/projector/src/planted.ts', '#libs/embedded/event-store'],
  'product-needs-no-tests': ['apps/api/src/tested.ts', '#test/support'],
  'product-needs-no-dev-packages': ['apps/api/src/checked.ts', 'fast-check'],
};
/** Files that the planted ones need in order to resolve. */
const standing: Record<string, string> = {
  'libs/vault/src/ring.ts': "import './index.js';\n",
  'libs/event-store/src/inner.ts': '',
  'projections/current-checkpoints/src/store.ts': '',
};

interface Violation {
  rule: { name: string };
  from: string;
}

describe('the rules about imports', () => {
  const folder = mkdtempSync(join(tmpdir(), 'waymark-planted-'));
  let found: Violation[];

  beforeAll(() => {
    for (const name of ['package.json', 'tsconfig.json', 'tsconfig.base.json', '.dependency-cruiser.cjs'])
      cpSync(join(root, name), join(folder, name));
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    for (const [, specifier] of Object.values(planted))
      if (specifier.startsWith('#') && specifier !== '#libs/nowhere')
        write(`${specifier.slice(1)}/src/index.ts`, '');
    for (const [file, text] of Object.entries(standing)) write(file, text);
    for (const [file, specifier] of Object.values(planted)) write(file, `import '${specifier}';\n`);
    found = violationsIn(folder);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('are each broken by what is planted for them', () => {
    const expected = Object.entries(planted).map(([rule, [file]]) => `${rule}: ${file}`);
    expect([...new Set(found.map(({ rule, from }) => `${rule.name}: ${from}`))].sort()).toEqual(
      expected.sort(),
    );
  });

  it('have a planted violation each', () => {
    const config = createRequire(__filename)(join(root, '.dependency-cruiser.cjs')) as {
      forbidden: { name: string }[];
    };
    expect(Object.keys(planted).sort()).toEqual(config.forbidden.map((rule) => rule.name).sort());
  });

  function write(file: string, text: string): void {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
});

function violationsIn(folder: string): Violation[] {
  const cruiser = join(root, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs');
  const args = [
    '--config',
    '.dependency-cruiser.cjs',
    '--output-type',
    'json',
    'apps',
    'libs',
    'projections',
  ];
  const { stdout, stderr } = spawnSync(process.execPath, [cruiser, ...args], {
    cwd: folder,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  if (stdout === '') throw new Error(stderr);
  return (JSON.parse(stdout) as { summary: { violations: Violation[] } }).summary.violations;
}

describe('the rule about expected revisions', () => {
  it('refuses an append at `any`, imported or spelled out', () => {
    const code = `
      import { ANY, type EventStoreDBClient } from '@eventstore/db-client';
      export async function append(client: EventStoreDBClient) {
        await client.appendToStream('run-acme.1', [], { expectedRevision: ANY });
        await client.appendToStream('run-acme.1', [], { expectedRevision: 'any' });
      }`;
    const broken = lint('libs/event-store/src/planted.ts', code);
    expect(broken.map(({ ruleId, line }) => [ruleId, line])).toEqual([
      ['no-restricted-syntax', 2],
      ['no-restricted-syntax', 5],
    ]);
  });
});

/** Lints a text as if it were that file, without the rules that need types: it is in no program. */
function lint(filePath: string, code: string): { ruleId: string; line: number }[] {
  const script = `
    import { ESLint } from 'eslint';
    import tseslint from 'typescript-eslint';
    const eslint = new ESLint({ overrideConfig: [tseslint.configs.disableTypeChecked] });
    const [result] = await eslint.lintText(${JSON.stringify(code)}, { filePath: ${JSON.stringify(filePath)} });
    console.log(JSON.stringify(result.messages));`;
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: root,
    encoding: 'utf8',
  });
  return JSON.parse(output) as { ruleId: string; line: number }[];
}
