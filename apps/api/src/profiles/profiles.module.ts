import { Module } from '@nestjs/common';
import { ProfilesController } from './profiles.controller.js';
import * as handlers from './profiles.handlers.js';
import { ServedCustomers } from './served-customers.js';

@Module({
  controllers: [ProfilesController],
  providers: [
    ServedCustomers,
    handlers.ReadProfileHandler,
    handlers.ProposePreferenceHandler,
    handlers.DecideProposalHandler,
    handlers.SetPreferenceHandler,
    handlers.WithdrawPreferenceHandler,
  ],
})
export class ProfilesModule {}
