/** A time so many seconds later, in the form in which times are stored. */
export function later(at: string, seconds: number): string {
  return new Date(Date.parse(at) + seconds * 1000).toISOString();
}
