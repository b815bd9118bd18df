/** As databases order text: by its bytes in UTF-8, which beyond the first 65,536 characters is not JavaScript's order. */
export function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
