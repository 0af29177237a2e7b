import {
  Command,
  CommandHandler,
  type ICommandHandler,
  type IQueryHandler,
  Query,
  QueryHandler,
} from '@nestjs/cqrs';
import { type PresentedEntry, StaffQueries } from '#projections/staff-register';
import { RunningProjections, standingIn } from '#apps/platform';
import { staffStream, type StaffState } from '#libs/domain/staff';
import { EventStore, type Handled } from '#libs/event-store';
import type { Call } from '../calls.js';
import { behind } from '../dispatch.js';
import type { Paging } from '../routes.js';
import { contextOf } from '../runs/runs.js';
import type { StaffBody } from './staff.schemas.js';

const PATIENCE_MS = 2_000;

export class RegisterStaff extends Command<Handled<StaffBody & { sub: string }>> {
  constructor(readonly call: Call<StaffBody>) {
    super();
  }
}

@CommandHandler(RegisterStaff)
export class RegisterStaffHandler implements ICommandHandler<RegisterStaff> {
  constructor(
    private readonly store: EventStore,
    private readonly queries: StaffQueries,
    private readonly projections: RunningProjections,
  ) {}

  async execute({ call }: RegisterStaff) {
    const { who, at, body } = call;
    const sub = call.param('sub');
    const standing = (await standingIn(this.store, who))?.roles;
    const asks = who.roles.includes('supervisor') && standing?.includes('supervisor') !== true;
    const founding = asks && !(await this.hasSupervisor(who.tenant));
    call.demand({ standing, founding });
    return this.store.handle(staffStream, {
      tenant: who.tenant,
      id: sub,
      context: contextOf(call),
      command: { type: 'RegisterStaff', sub, ...body, registeredBy: who.sub, founding, at },
      creates: true,
      answer: entryOf,
    });
  }

  /** Asked of the view, once it is as far as the log is now. @throws Problem, ReadModelUnavailable */
  private async hasSupervisor(tenant: string): Promise<boolean> {
    const running = this.projections.find('staff-register');
    if (running) {
      const head = await this.store.head();
      if (!(await running.waitFor(head, PATIENCE_MS))) throw behind(head, (await running.status()).position);
    }
    return this.queries.hasSupervisor(tenant);
  }
}

function entryOf({ entry }: StaffState): StaffBody & { sub: string } {
  if (!entry) throw new Error('what was registered is not in the register');
  return structuredClone(entry);
}

export class ListStaff extends Query<{ items: PresentedEntry[]; nextCursor: string | null }> {
  constructor(readonly call: Call<undefined, Paging>) {
    super();
  }
}

@QueryHandler(ListStaff)
export class ListStaffHandler implements IQueryHandler<ListStaff> {
  constructor(private readonly queries: StaffQueries) {}

  execute({ call }: ListStaff) {
    call.demand({});
    return this.queries.list(call.who.tenant, call.query);
  }
}
