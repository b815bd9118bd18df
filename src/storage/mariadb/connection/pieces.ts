/** Cuts a text into pieces that each fit into that many bytes of a statement; both halves of a pair stay together. */
export function cutPieces(text: string, bytes: number): readonly string[] {
  // A character takes up to three bytes (of a pair, four together), or two where it is escaped.
  const most = Math.max(2, Math.floor(bytes / 3))
  const pieces: string[] = []
  let from = 0
  do {
    let to = Math.min(text.length, from + most)
    if (to < text.length && /[\uD800-\uDBFF]/.test(text[to - 1]!)) to--
    pieces.push(text.slice(from, to))
    from = to
  } while (from < text.length)
  return pieces
}
