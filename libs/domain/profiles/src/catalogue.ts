import { z } from 'zod';

const text = (most: number) =>
  z
    .string()
    .trim()
    .min(1)
    .max(most)
    .refine((value) => !value.includes('\0'), 'must not hold a NUL character');

/** Every preference there is, and what its value may be. */
export const catalogue = {
  'contact.channel': z.enum(['sms', 'email', 'phone', 'post']),
  'contact.language': z
    .string()
    .regex(/^[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$/, 'a language such as "en" or "de-AT"'),
  'contact.hours': text(200),
  'payout.method': text(100),
  'accessibility.needs': text(500),
  'repair.network': text(100),
} satisfies Record<string, z.ZodType<string>>;

export type PreferenceKey = keyof typeof catalogue;

export function isPreferenceKey(key: string): key is PreferenceKey {
  return Object.hasOwn(catalogue, key);
}
