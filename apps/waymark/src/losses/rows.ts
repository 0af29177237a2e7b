import { readFile } from 'node:fs/promises';
import { parse } from 'csv-parse';
import { derivedId } from '#libs/canonical';
import { type LossNotice, lossNotice } from '#libs/domain/losses';
import { CannotStart } from '../failures.js';

/** One reported loss of the file. */
export interface ReadableRow {
  line: number;
  /** The row's text, and how often it stood in the file before. */
  identity: string;
  notice: LossNotice;
  fraudReported: boolean;
  /** Another row before it has the same policy number and date. */
  duplicate: boolean;
}

/** One that is ready to become a run. */
export interface LossRow extends ReadableRow {
  runId: string;
  customerId: string;
}

export interface UnreadableRow {
  line: number;
  reason: string;
}

const LOSS_TYPES: Record<string, LossNotice['lossType']> = {
  'Single Vehicle Collision': 'auto-collision',
  'Multi-vehicle Collision': 'auto-collision',
  'Vehicle Theft': 'auto-theft',
  'Parked Car': 'other',
};
const REQUIRED = ['policy_number', 'incident_date', 'incident_type', 'total_claim_amount', 'fraud_reported'];

type Cells = Record<string, string>;

/** A keyed digest: ids stand in the names of streams, where nothing may be read off them or guessed. */
export type Keyed = (purpose: string, text: string) => string;

/**
 * Reads a table of motor losses; its first line names the columns. A cell that is empty or `?` is unknown, and the
 * field is absent. A row that cannot be read is set aside with its line and the reason; the others go on.
 *
 * @throws CannotStart if the file lacks a column without which no row could be read.
 */
export async function readLosses(
  file: string,
): Promise<{ rows: ReadableRow[]; unreadable: UnreadableRow[] }> {
  const rows: ReadableRow[] = [];
  const unreadable: UnreadableRow[] = [];
  const seen = new Map<string, number>();
  let columns: string[] | undefined;
  const options = { bom: true, info: true, skip_empty_lines: true };
  const lenient = { relax_column_count: true, relax_quotes: true };
  const records = parse(await readFile(file), { ...options, ...lenient });
  for await (const { record, info } of records as AsyncIterable<{
    record: string[];
    info: { lines: number };
  }>) {
    if (columns === undefined) {
      columns = namesOf(file, record);
      continue;
    }
    const outcome = readRow(columns, record, seen);
    if (typeof outcome === 'string') unreadable.push({ line: info.lines, reason: outcome });
    else rows.push({ line: info.lines, ...outcome });
  }
  return { rows, unreadable };
}

/** Gives rows their ids, which derive from the row and the key: the same row under the same key is the same run. */
export function withIds(rows: ReadableRow[], keyed: Keyed): LossRow[] {
  return rows.map((row) => ({
    ...row,
    runId: derivedId(keyed('losses-run', row.identity)),
    customerId: derivedId(keyed('losses-customer', row.notice.policyNumber)),
  }));
}

function namesOf(file: string, record: string[]): string[] {
  const names = record.map((name) => name.trim());
  const missing = REQUIRED.filter((name) => !names.includes(name));
  if (missing.length > 0)
    throw new CannotStart(
      `${file} is no table of losses: its first line names no column ${missing.join(', ')}`,
    );
  return names;
}

/** The row, or why it cannot be read. */
function readRow(
  columns: string[],
  record: string[],
  seen: Map<string, number>,
): Omit<ReadableRow, 'line'> | string {
  if (record.length !== columns.length)
    return `${record.length} cells; the first line names ${columns.length}`;
  const cells: Cells = {};
  columns.forEach((name, at) => {
    const text = record[at]?.trim() ?? '';
    if (text !== '' && text !== '?') cells[name] = text;
  });
  const absent = REQUIRED.find((name) => cells[name] === undefined);
  if (absent !== undefined) return `${absent} is unknown`;
  if (cells.fraud_reported !== 'Y' && cells.fraud_reported !== 'N')
    return 'fraud_reported is neither Y nor N';
  if (LOSS_TYPES[cells.incident_type ?? ''] === undefined)
    return `incident_type ${cells.incident_type} is not known`;
  const parsed = lossNotice.safeParse(noticeOf(cells));
  if (!parsed.success)
    return parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; ');
  const notice = parsed.data;
  const row = JSON.stringify(cells);
  const timesSeen = (what: string) => {
    const before = seen.get(what) ?? 0;
    seen.set(what, before + 1);
    return before;
  };
  return {
    identity: `${timesSeen(`row ${row}`)} ${row}`,
    notice,
    fraudReported: cells.fraud_reported === 'Y',
    duplicate: timesSeen(`loss ${notice.policyNumber} ${notice.lossDate}`) > 0,
  };
}

function noticeOf(cells: Cells): unknown {
  const { incident_location: line, incident_city: city, incident_state: region } = cells;
  const { auto_make: make, auto_model: model, auto_year: year } = cells;
  const { police_report_available: report, bodily_injuries: injuries, witnesses } = cells;
  return present({
    policyNumber: cells.policy_number,
    lossDate: cells.incident_date,
    lossType: LOSS_TYPES[cells.incident_type ?? ''],
    lossLocation: line || city || region ? present({ line, city, region }) : undefined,
    description: descriptionOf(cells),
    estimatedAmount: { amount: cells.total_claim_amount, currency: 'USD' },
    vehicles: make && model && year ? [{ make, model, year: Number(year) }] : undefined,
    injuries: injuries === undefined ? undefined : Number(injuries),
    witnesses: witnesses === undefined ? undefined : Number(witnesses),
    policeReport: report === undefined ? undefined : { available: report === 'YES' },
  });
}

function descriptionOf(cells: Cells): string {
  const { incident_type: type, collision_type: collision, incident_severity: severity } = cells;
  const { authorities_contacted: authorities, number_of_vehicles_involved: vehicles } = cells;
  return [
    [type, collision, severity].filter((text) => text !== undefined).join(', '),
    ...(vehicles === undefined ? [] : [`vehicles involved: ${vehicles}`]),
    ...(authorities === undefined || authorities === 'None' ? [] : [`authorities contacted: ${authorities}`]),
  ].join('; ');
}

function present(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
