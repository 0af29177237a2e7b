import { Controller } from '@nestjs/common';
import { type Call as Of, Called } from '../calls.js';
import { Dispatch } from '../dispatch.js';
import { type Paging, Route } from '../routes.js';
import { ListStaff, RegisterStaff } from './staff.handlers.js';
import * as of from './staff.schemas.js';

@Controller()
export class StaffController {
  constructor(private readonly dispatch: Dispatch) {}

  @Route('PUT', '/v1/staff/:sub', {
    kind: 'command',
    permit: 'staff.register',
    summary: 'Say who somebody is at work: roles, authority limit, active or not',
    body: of.staffBody,
    answer: of.registered,
  })
  register(@Called() call: Of<of.StaffBody>) {
    return this.dispatch.command(call, new RegisterStaff(call));
  }

  @Route('GET', '/v1/staff', {
    kind: 'list',
    permit: 'staff.list',
    summary: 'Everybody in the register, newest first',
    answer: of.staffPage,
  })
  list(@Called() call: Of<undefined, Paging>) {
    return this.dispatch.list(call, 'staff-register', new ListStaff(call));
  }
}
