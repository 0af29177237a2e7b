import { Module } from '@nestjs/common';
import { StaffController } from './staff.controller.js';
import { ListStaffHandler, RegisterStaffHandler } from './staff.handlers.js';

@Module({ controllers: [StaffController], providers: [RegisterStaffHandler, ListStaffHandler] })
export class StaffModule {}
