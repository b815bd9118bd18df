/**
 * Compares texts like a database: by their bytes in UTF-8. For characters above U+FFFF JavaScript's own order differs.
 */
export function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
