/** What a terminal sends for keys that are no characters. */
const sequences: readonly (readonly [string, string])[] = [
  ['\u001b[A', 'up'],
  ['\u001bOA', 'up'],
  ['\u001b[B', 'down'],
  ['\u001bOB', 'down'],
  ['\u001b[5~', 'pageup'],
  ['\u001b[6~', 'pagedown'],
  ['\u001b[H', 'home'],
  ['\u001b[1~', 'home'],
  ['\u001bOH', 'home'],
  ['\u001b[F', 'end'],
  ['\u001b[4~', 'end'],
  ['\u001bOF', 'end'],
  ['\u0003', 'interrupt'],
  ['\u0004', 'interrupt'],
  ['\u000c', 'redraw'],
  ['\r', 'enter'],
  ['\n', 'enter'],
  ['\u007f', 'backspace'],
  ['\b', 'backspace'],
  ['\u0015', 'clear'],
]

/** The keys in what a terminal sent: names for those above and `escape`, else the character itself. What is unknown is left out. */
export function decodeKeys(sent: string): readonly string[] {
  const keys: string[] = []
  let rest = sent
  while (rest !== '') {
    const known = sequences.find(([sequence]) => rest.startsWith(sequence))
    if (known) {
      keys.push(known[1])
      rest = rest.slice(known[0].length)
      continue
    }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a terminal sends
    const unknown = /^\u001b(?:\[[0-9;?]*[ -/]*[@-~]|O.|[^\u001b[O])/.exec(rest)
    if (unknown) {
      rest = rest.slice(unknown[0].length)
      continue
    }
    const [character] = rest as unknown as readonly [string]
    const whole = String.fromCodePoint(rest.codePointAt(0)!)
    if (character === '\u001b') keys.push('escape')
    else if (whole >= ' ') keys.push(whole)
    rest = rest.slice(whole.length)
  }
  return keys
}
