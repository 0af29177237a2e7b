import { type Identity, judge, type PolicyName, type Role, roles, type Subject } from '#libs/access';
import type { KnownRoute } from '../routes.js';

const OWN = '11111111-1111-4111-8111-111111111111';
const ANOTHER = '22222222-2222-4222-8222-222222222222';

/** How each role can stand to a record. What a subject does not say is as it is for a stranger to it. */
const relations: Record<Role, Readonly<Record<string, Subject>>> = {
  customer: {
    own: { customerId: OWN, speaker: 'customer' },
    another: { customerId: ANOTHER, speaker: 'customer' },
  },
  assistant: {
    assigned: { customerId: ANOTHER, assigned: true, speaker: 'assistant' },
    'not assigned': { customerId: ANOTHER, assigned: false, speaker: 'assistant' },
  },
  adjuster: {
    registered: { customerId: ANOTHER, standing: ['adjuster'], speaker: 'staff' },
    'not registered': { customerId: ANOTHER, standing: [], speaker: 'staff' },
  },
  supervisor: {
    registered: { customerId: ANOTHER, standing: ['supervisor'], speaker: 'staff' },
    'not registered': { customerId: ANOTHER, standing: [], speaker: 'staff' },
  },
  auditor: { any: { customerId: ANOTHER } },
  'privacy-officer': { any: { customerId: ANOTHER } },
  operator: { any: { customerId: ANOTHER } },
};

const ANSWERS = { yes: 'yes', forbidden: '403', hidden: '404' };

const OPENING = `# Access

Who may use which route: made from the routes and their policies by \`npm run docs:access\`; a test compares the two.
\`yes\` is allowed, \`403\` is \`not-permitted\` (the caller may know of the record), \`404\` is \`not-found\`, the answer
for what does not exist. Where it depends on how the caller stands to the record, the head of the column says in which
order; a single entry holds for all. Several roles add up, but whoever is also an assistant decides and delegates no
approval. Without a token every route that is not open answers 401. A record of another tenant is always 404.

Beyond policies, rules refuse by the state of a record (four eyes, authority, leases): [problems](problems.md). A
supervisor who is not registered may register staff while the tenant has no active supervisor; only a supervisor takes
over a lease that another worker holds. A list shows a customer their own records alone, by its query.

`;

/** The matrix of routes, roles and relations. */
export function accessPage(routes: readonly KnownRoute[]): string {
  const rows = routes
    .filter(({ method }) => method !== 'HEAD')
    .map(({ method, path, spec }) => [`\`${method} ${path}\``, `\`${spec.permit}\``, ...cellsOf(spec.permit)])
    .sort(([one = ''], [other = '']) => compare(addressOf(one), addressOf(other)));
  const header = roles.map((role) => [role, ...orderOf(role)].join(': '));
  return `${OPENING}${table([['route', 'policy', ...header], ...rows])}`;
}

function cellsOf(permit: PolicyName | 'open' | 'loopback'): string[] {
  if (permit === 'open' || permit === 'loopback') return roles.map(() => 'yes');
  return roles.map((role) => {
    const answers = Object.values(relations[role]).map(
      (subject) => ANSWERS[judge(permit, bearer(role), subject)],
    );
    return new Set(answers).size === 1 ? String(answers[0]) : answers.join(' / ');
  });
}

function orderOf(role: Role): string[] {
  const names = Object.keys(relations[role]);
  return names.length === 1 ? [] : [names.join(' / ')];
}

function bearer(role: Role): Identity {
  return { sub: 'somebody', tenant: 'acme', roles: [role], customerId: OWN, actFor: [], expiresAt: 0 };
}

/** By path, then by method. */
function addressOf(route: string): string {
  return route.split(' ').reverse().join(' ');
}

function compare(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

function table([header = [], ...rows]: string[][]): string {
  const widths = header.map((_, at) =>
    Math.max(3, ...[header, ...rows].map((row) => (row[at] ?? '').length)),
  );
  const line = (row: string[]) => `| ${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`;
  return `${[header, header.map((_, at) => '-'.repeat(widths[at] ?? 0)), ...rows].map(line).join('\n')}\n`;
}
