/** The commands that a new user needs, on the first screen. */
const commands = ['npm install signalbox', 'npm ci && npm start', 'npm ci && npm test']
const firstScreenLines = 40
/** One sentence explains when to use which of the two. */
const library = { 'README.md': '**library**', 'README.zh-CN.md': '**库**' }
const server = { 'README.md': '**server**', 'README.zh-CN.md': '**服务器**' }

/** Compares the two READMEs with each other and with their required parts. Returns the differences. */
export function findReadmeGaps(english: string, chinese: string): readonly string[] {
  const problems: string[] = []
  for (const [name, text] of [
    ['README.md', english],
    ['README.zh-CN.md', chinese],
  ] as const) {
    const firstScreen = text.split('\n').slice(0, firstScreenLines).join('\n')
    for (const command of commands) {
      if (!firstScreen.includes(command))
        problems.push(`${name}: "${command}" is not in the first ${firstScreenLines} lines`)
    }
    const sentences = firstScreen.split(/\. |。|\n\n/)
    if (!sentences.some((sentence) => sentence.includes(library[name]) && sentence.includes(server[name])))
      problems.push(
        `${name}: no sentence on the first screen says when to use the library, and when the server`,
      )
  }
  const [ours, theirs] = [decode(english), decode(chinese)]
  if (ours.sectionCount !== theirs.sectionCount) {
    problems.push(`README.md has ${ours.sectionCount} sections, README.zh-CN.md ${theirs.sectionCount}`)
  }
  if (ours.blocks.length !== theirs.blocks.length) {
    problems.push(`README.md has ${ours.blocks.length} code blocks, README.zh-CN.md ${theirs.blocks.length}`)
  }
  ours.blocks.forEach((block, index) => {
    const other = theirs.blocks[index]
    if (other !== undefined && other !== block)
      problems.push(`code block ${index + 1} differs between the two`)
  })
  return problems
}

/** A page's fenced blocks, fences included, and the number of `##` headings outside them. */
function decode(text: string): { blocks: readonly string[]; sectionCount: number } {
  const fence = /^(```+|~~~+)[^\n]*\n[\s\S]*?^\1[ \t]*$/gm
  const blocks = text.match(fence) ?? []
  return { blocks, sectionCount: (text.replace(fence, '').match(/^## /gm) ?? []).length }
}
