import { staffStream, type Standing, standingOf } from '#libs/domain/staff';
import type { EventStore } from '#libs/event-store';

/** A person of a tenant; `roles` are those of their token, where one is at hand. */
export interface Person {
  readonly tenant: string;
  readonly sub: string;
  readonly roles?: readonly string[];
}

/**
 * In what capacity somebody may act now, by their stream in the register, which is read each time: a right that was
 * taken away counts no more from the next decision on, in every process.
 *
 * @throws StoreUnavailable; without the register nobody decides.
 */
export async function standingIn(
  events: Pick<EventStore, 'fold'>,
  { tenant, sub, roles }: Person,
): Promise<Standing | undefined> {
  const entry = await events.fold(staffStream, tenant, sub);
  return entry && standingOf(entry.state, roles);
}
