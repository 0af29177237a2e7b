import { Module } from '@nestjs/common';
import { RunsModule } from '../runs/runs.module.js';
import { ApprovalsController } from './approvals.controller.js';
import {
  DecideApprovalHandler,
  ListApprovalsHandler,
  ReadApprovalHandler,
  WithdrawApprovalHandler,
} from './approvals.handlers.js';

@Module({
  imports: [RunsModule],
  controllers: [ApprovalsController],
  providers: [DecideApprovalHandler, WithdrawApprovalHandler, ReadApprovalHandler, ListApprovalsHandler],
})
export class ApprovalsModule {}
