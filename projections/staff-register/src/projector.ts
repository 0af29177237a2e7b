import type { StaffEvent } from '#libs/domain/staff';
import { defineProjection } from '#libs/projecting';
import { type StaffEntry, staffEntry } from './document.js';

export const staffRegister = defineProjection<StaffEntry, StaffEvent>({
  name: 'staff-register',
  version: 1,
  category: 'staff',
  document: staffEntry,
  indexes: [{ key: { tenant: 1, created: -1 } }],
  customerOf: () => {
    throw new Error('a register entry has no customer');
  },
  fold: {
    StaffRegistered: { begins: ({ data }) => data },
    StaffChanged: ({ registeredBy, registeredAt }, { data }) => ({ ...data, registeredBy, registeredAt }),
  },
});
