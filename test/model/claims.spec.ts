import fc from 'fast-check';
import { drain, move, type Move, play } from './moves.js';
import { World } from './world.js';

const full = process.env['WAYMARK_FAULTS'] === 'full';
const [histories, commands] = full ? [20, 10_000] : [12, 250];

function live(moves: readonly Move[]): World {
  const world = new World();
  for (const each of moves) play(each, world);
  drain(world);
  for (const { state } of world.runs)
    for (const { stage } of state.approvals.values()) expect(stage).not.toBe('filing');
  return world;
}

it('files no claim without a valid grant, none twice and none from another digest, in any history', () => {
  const seen = new Map<string, number>();
  const length = { minLength: commands, maxLength: commands, size: 'max' as const };
  fc.assert(
    fc.property(fc.array(move, length), (moves) => {
      for (const [what, times] of live(moves).seen) seen.set(what, (seen.get(what) ?? 0) + times);
    }),
    { numRuns: histories },
  );
  if (full) console.log(Object.fromEntries([...seen].sort()));
  expect([...seen.keys()]).toEqual(expect.arrayContaining(['ClaimFiled', 'ReceiptNoted']));
});
