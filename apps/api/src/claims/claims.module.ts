import { Module } from '@nestjs/common';
import { ClaimsController } from './claims.controller.js';
import { HandleClaimHandler } from './claims.commands.js';
import {
  ListClaimsHandler,
  ReadClaimHandler,
  ReadProvenanceHandler,
  ReadReceiptHandler,
} from './claims.handlers.js';

@Module({
  controllers: [ClaimsController],
  providers: [
    HandleClaimHandler,
    ReadClaimHandler,
    ReadReceiptHandler,
    ReadProvenanceHandler,
    ListClaimsHandler,
  ],
})
export class ClaimsModule {}
