import { Global, Module } from '@nestjs/common';
import { CqrsModule } from '@nestjs/cqrs';
import { ClaimQueries } from '#projections/authoritative-claims';
import { CheckpointQueries } from '#projections/current-checkpoints';
import { StaffQueries } from '#projections/staff-register';
import { ProfileQueries } from '#projections/preference-profiles';
import { Clock, Config, Log, noticeIn } from '#apps/platform';
import { TokenReader } from '#libs/access';
import { EventStore } from '#libs/event-store';
import { ReadModels } from '#libs/projecting';
import { Vault } from '#libs/vault';
import { ApprovalsModule } from './approvals/approvals.module.js';
import { ClaimsModule } from './claims/claims.module.js';
import { ConversationsModule } from './conversations/conversations.module.js';
import { Dispatch } from './dispatch.js';
import { OperationsModule } from './operations/operations.module.js';
import { ProfilesModule } from './profiles/profiles.module.js';
import { Routes } from './routes.js';
import { RunsModule } from './runs/runs.module.js';
import { StaffModule } from './staff/staff.module.js';
import { Understanding } from './understanding.js';

async function tokenReader({ auth }: Config, clock: Clock, vault: Vault): Promise<TokenReader> {
  const { jwksUrl, ...rules } = auth;
  const withClock = { ...rules, now: () => clock.now() };
  if (jwksUrl !== undefined) return TokenReader.remote(jwksUrl, withClock);
  return TokenReader.embedded(await vault.signingKeys(), withClock);
}

const storesOf = (log: EventStore, vault: Vault, models: ReadModels, lines: Log) => ({
  log,
  vault,
  models,
  notice: noticeIn(lines),
});
const STORES = [EventStore, Vault, ReadModels, Log];

const common = [
  Routes,
  Understanding,
  Dispatch,
  { provide: TokenReader, inject: [Config, Clock, Vault], useFactory: tokenReader },
  {
    provide: CheckpointQueries,
    inject: STORES,
    useFactory: (...stores: Parameters<typeof storesOf>) => new CheckpointQueries(storesOf(...stores)),
  },
  {
    provide: ClaimQueries,
    inject: STORES,
    useFactory: (...stores: Parameters<typeof storesOf>) => new ClaimQueries(storesOf(...stores)),
  },
  {
    provide: StaffQueries,
    inject: STORES,
    useFactory: (...stores: Parameters<typeof storesOf>) => new StaffQueries(storesOf(...stores)),
  },
  {
    provide: ProfileQueries,
    inject: STORES,
    useFactory: (...stores: Parameters<typeof storesOf>) => new ProfileQueries(storesOf(...stores)),
  },
];

/** The HTTP side: what is common to all routes, and one module for each slice. Needs `StoresModule` beside it. */
@Global()
@Module({
  imports: [
    CqrsModule.forRoot(),
    RunsModule,
    ApprovalsModule,
    ClaimsModule,
    ConversationsModule,
    StaffModule,
    ProfilesModule,
    OperationsModule,
  ],
  providers: common,
  exports: [...common, CqrsModule],
})
export class ApiModule {}
