/**
 * What may import what, by path. Rooms are `apps/<x>`, `projections/<x>`, `libs/<x>`, `libs/domain/<x>`,
 * `libs/embedded/<x>`, `test/<x>`; `test/ownership` plants a violation of every rule. Type-only imports count.
 */
const SPEC = '\\.spec\\.ts$';
const ROOM = '(?:apps|projections|libs/domain|libs/embedded|libs|test)/[^/]+';
const OURS = '^(apps|libs|projections|test|bench)/';
const packages = (...names) => `node_modules/(${names.join('|')})(/|$)`;
const libs = (...names) => `^libs/(${names.join('|')})/`;

/** The rooms of `from` may reach no more of ours than `to`; packages are another rule's business. */
const reaches = (name, from, to, comment) => ({
  name,
  severity: 'error',
  comment,
  from: { path: from, pathNot: SPEC },
  to: { path: OURS, pathNot: to },
});

const forbidden = [
  {
    name: 'everything-resolves',
    severity: 'error',
    comment: 'An import that does not resolve silently switches off every rule about its target.',
    from: {},
    to: { couldNotResolve: true },
  },
  {
    name: 'no-cycles',
    severity: 'error',
    comment: 'At run time: types may name each other.',
    from: {},
    to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
  },
  {
    name: 'front-doors-only',
    severity: 'error',
    comment: "A room is entered by its index.ts; what lies behind it is the room's own.",
    from: { path: `^(${ROOM})/` },
    to: { path: OURS, pathNot: ['^$1/', '^[^.]+/src/index\\.ts$'] },
  },
  reaches('canonical-knows-nothing', libs('canonical'), libs('canonical')),
  reaches('decider-knows-canonical', libs('decider'), libs('decider', 'canonical')),
  reaches(
    'rules-know-rules',
    libs('domain'),
    libs('domain', 'decider', 'canonical'),
    'Rules know no store, no framework, no clock.',
  ),
  {
    name: 'rules-need-only-zod',
    severity: 'error',
    comment: 'No package but zod and JSON Patch, and nothing of the system: rules are pure.',
    from: { path: '^libs/(domain|decider)/', pathNot: SPEC },
    to: { dependencyTypes: ['npm', 'npm-dev', 'core'], pathNot: packages('zod', 'rfc6902') },
  },
  reaches('vault-seals-for-others', libs('vault'), libs('vault', 'canonical', 'decider')),
  reaches(
    'event-store-knows-no-domain',
    libs('event-store'),
    libs('event-store', 'vault', 'canonical', 'decider'),
    'It takes any kind of stream by its shape.',
  ),
  reaches(
    'leases-and-snapshots-are-small',
    libs('leases', 'snapshots'),
    libs('leases', 'snapshots', 'event-store', 'vault', 'canonical', 'decider'),
  ),
  reaches(
    'projecting-knows-no-domain',
    libs('projecting', 'reacting'),
    libs('projecting', 'reacting', 'event-store', 'vault', 'canonical', 'decider'),
  ),
  reaches(
    'conversations-are-no-stream',
    libs('conversations'),
    libs('conversations', 'projecting', 'event-store', 'vault', 'canonical', 'decider'),
    'Messages can be deleted; nothing of the domain reads them.',
  ),
  reaches(
    'payloads-know-no-domain',
    libs('payloads'),
    libs('payloads', 'projecting', 'event-store', 'vault', 'canonical', 'decider'),
  ),
  reaches('facts-know-rules', libs('facts'), libs('facts', 'domain', 'decider', 'canonical')),
  reaches('access-is-pure', libs('access'), libs('access', 'canonical', 'decider')),
  {
    name: 'access-is-asked-by-apps',
    severity: 'error',
    from: { path: '^(libs|projections)/', pathNot: '^libs/access/' },
    to: { path: libs('access') },
  },
  {
    name: 'projections-stand-alone',
    severity: 'error',
    comment: 'A read model has one owner; what two of them need is in the events.',
    from: { path: '^projections/([^/]+)/', pathNot: SPEC },
    to: {
      path: OURS,
      pathNot: ['^projections/$1/', libs('projecting', 'domain', 'decider', 'canonical')],
    },
  },
  {
    name: 'projectors-are-pure',
    severity: 'error',
    from: { path: '^projections/[^/]+/src/projector\\.ts$' },
    to: {
      pathNot: [
        libs('projecting', 'domain', 'decider', 'canonical'),
        packages('zod'),
        '^projections/[^/]+/src/document\\.ts$',
      ],
    },
  },
  {
    name: 'front-door-hides-the-store',
    severity: 'error',
    comment: 'Nobody but its own queries holds a handle of a read model.',
    from: { path: '^projections/[^/]+/src/index\\.ts$' },
    to: { path: '^projections/[^/]+/src/store\\.ts$' },
  },
  {
    name: 'apps-are-on-top',
    severity: 'error',
    from: { path: '^(libs|projections)/' },
    to: { path: '^apps/' },
  },
  {
    name: 'apps-meet-in-platform',
    severity: 'error',
    comment: 'Only the command line composes apps.',
    from: { path: '^apps/([^/]+)/', pathNot: '^apps/waymark/' },
    to: { path: '^apps/', pathNot: ['^apps/$1/', '^apps/(platform|settings)/'] },
  },
  {
    name: 'nest-stops-at-apps',
    severity: 'error',
    from: { pathNot: '^(apps|test|bench)/' },
    to: { path: packages('@nestjs', 'fastify', '@fastify') },
  },
  {
    name: 'event-store-client-has-one-home',
    severity: 'error',
    comment: 'The embedded engine speaks the same messages, by the generated classes.',
    from: { pathNot: ['^libs/event-store/', '^libs/embedded/event-store/', '^(test|bench)/', SPEC] },
    to: { path: packages('@eventstore') },
  },
  {
    name: 'mongodb-driver-has-few-homes',
    severity: 'error',
    comment: 'Others may name its types.',
    from: { pathNot: ['^libs/(projecting|leases|snapshots|payloads)/', '^(test|bench)/', SPEC] },
    to: { path: packages('mongodb'), dependencyTypesNot: ['type-only'] },
  },
  {
    name: 'engines-know-nothing-of-ours',
    severity: 'error',
    from: { path: '^libs/embedded/([^/]+)/' },
    to: { path: OURS, pathNot: '^libs/embedded/$1/' },
  },
  {
    name: 'engines-are-run-by-the-command-line',
    severity: 'error',
    from: { pathNot: ['^libs/embedded/', '^apps/waymark/', '^(test|bench)/', SPEC] },
    to: { path: '^libs/embedded/' },
  },
  {
    name: 'product-needs-no-tests',
    severity: 'error',
    from: { path: '^(apps|libs|projections)/', pathNot: SPEC },
    to: { path: `^(test|bench)/|${SPEC}` },
  },
  {
    name: 'product-needs-no-dev-packages',
    severity: 'error',
    from: { path: '^(apps|libs|projections)/', pathNot: SPEC },
    to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['npm'] },
  },
];

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden,
  options: {
    doNotFollow: { path: 'node_modules' },
    // Scripts (.mjs) run what was built, which need not be there.
    exclude: { path: '^(dist|data)/|\\.mjs$' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['source', 'import', 'require', 'node', 'default', 'types'],
      extensions: ['.ts', '.mjs', '.js', '.json', '.d.ts'],
    },
  },
};
