import { createHmac } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readLosses, withIds } from './rows.js';

const HEAD =
  'policy_number,incident_date,incident_type,collision_type,incident_severity,authorities_contacted,' +
  'incident_state,incident_city,incident_location,number_of_vehicles_involved,bodily_injuries,witnesses,' +
  'police_report_available,total_claim_amount,auto_make,auto_model,auto_year,fraud_reported,_c39';
const ROW =
  '521585,2015-01-25,Single Vehicle Collision,Side Collision,Major Damage,Police,SC,Columbus,9935 4th Drive,1,1,2,YES,71610,Saab,92x,2004,Y,';

describe('a file of losses', () => {
  const folder = mkdtempSync(join(tmpdir(), 'waymark-rows-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const keyOf = (key: string) => (purpose: string, text: string) =>
    createHmac('sha256', key).update(`${purpose} ${text}`).digest('hex');
  let keyed = keyOf('one');
  const file = join(folder, 'losses.csv');
  const read = async (...lines: string[]) => {
    writeFileSync(file, lines.join('\n') + '\n');
    const { rows, unreadable } = await readLosses(file);
    return { rows: withIds(rows, keyed), unreadable };
  };

  it('becomes loss notices', async () => {
    const { rows, unreadable } = await read(HEAD, ROW);
    expect(unreadable).toEqual([]);
    expect(rows).toMatchObject([{ line: 2, fraudReported: true, duplicate: false }]);
    expect(rows[0]?.notice).toEqual({
      policyNumber: '521585',
      lossDate: '2015-01-25',
      lossType: 'auto-collision',
      lossLocation: { line: '9935 4th Drive', city: 'Columbus', region: 'SC' },
      description:
        'Single Vehicle Collision, Side Collision, Major Damage; vehicles involved: 1; authorities contacted: Police',
      estimatedAmount: { amount: '71610', currency: 'USD' },
      vehicles: [{ make: 'Saab', model: '92x', year: 2004 }],
      injuries: 1,
      witnesses: 2,
      policeReport: { available: true },
    });
  });

  it('leaves out what is unknown: ? and nothing become absent fields', async () => {
    const { rows } = await read(HEAD, '1,2015-01-25,Vehicle Theft,?,?,None,?,,,,?,?,?,100,Saab,?,2004,N,');
    expect(rows[0]?.notice).toEqual({
      policyNumber: '1',
      lossDate: '2015-01-25',
      lossType: 'auto-theft',
      description: 'Vehicle Theft',
      estimatedAmount: { amount: '100', currency: 'USD' },
    });
  });

  it('is read on past rows that cannot be read, which are named with line and reason', async () => {
    const { rows, unreadable } = await read(
      HEAD,
      ROW.replace('2015-01-25', '2015-02-30'),
      ROW,
      ROW.replace('71610', '?'),
      'half a row',
      ROW.replace(',Y,', ',maybe,'),
      ROW.replace('Single Vehicle Collision', 'Meteorite'),
    );
    expect(rows.map((row) => row.line)).toEqual([3]);
    expect(unreadable.map(({ line, reason }) => [line, reason])).toEqual([
      [2, expect.stringContaining('lossDate')],
      [4, 'total_claim_amount is unknown'],
      [5, '1 cells; the first line names 19'],
      [6, 'fraud_reported is neither Y nor N'],
      [7, 'incident_type Meteorite is not known'],
    ]);
  });

  it('gives a row the same run each time, and equal rows runs of their own', async () => {
    const [once] = (await read(HEAD, ROW)).rows;
    const { rows } = await read(HEAD, ROW.replace('521585', '9'), ROW, ROW);
    expect(rows[1]?.runId).toBe(once?.runId);
    expect(new Set(rows.map((row) => row.runId)).size).toBe(3);
    expect(rows.map((row) => row.duplicate)).toEqual([false, false, true]);
  });

  it('gives a row another run and customer under another key', async () => {
    const [once] = (await read(HEAD, ROW)).rows;
    keyed = keyOf('another');
    const [other] = (await read(HEAD, ROW)).rows;
    keyed = keyOf('one');
    expect(other?.notice).toEqual(once?.notice);
    expect(other?.runId).not.toBe(once?.runId);
    expect(other?.customerId).not.toBe(once?.customerId);
  });

  it('is refused as a whole when a needed column is missing', async () => {
    await expect(read('policy_number,incident_date', '1,2')).rejects.toThrow(
      `${file} is no table of losses: its first line names no column incident_type, total_claim_amount, fraud_reported`,
    );
  });
});
