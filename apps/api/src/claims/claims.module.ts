import { Module } from '@nestjs/common';
import { ClaimsController } from './claims.controller.js';
import {
  ListClaimsHandler,
  ReadClaimHandler,
  ReadProvenanceHandler,
  ReadReceiptHandler,
} from './claims.handlers.js';

@Module({
  controllers: [ClaimsController],
  providers: [ReadClaimHandler, ReadReceiptHandler, ReadProvenanceHandler, ListClaimsHandler],
})
export class ClaimsModule {}
