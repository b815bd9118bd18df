/** What every id made before an instant sorts below: ids begin with their time, so a time bounds a range of them. */
export function idBound(ms: number): string {
  const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
  let rest = Math.min(Math.max(Math.floor(ms), 0), 2 ** 48 - 1)
  let text = ''
  for (let place = 0; place < 10; place++) {
    text = alphabet.charAt(rest % 32) + text
    rest = Math.floor(rest / 32)
  }
  return text
}
