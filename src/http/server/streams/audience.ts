/** So many are told before others get their turn: telling 10,000 in one go stops the process for a fifth of a second. */
const atOnce = 200

/** Calls `tell` for everyone there is, in slices; whoever leaves meanwhile is not told. */
export async function tellEach<Member>(
  audience: Iterable<Member>,
  tell: (member: Member) => void,
): Promise<void> {
  let count = 0
  for (const member of audience) {
    tell(member)
    if (++count % atOnce === 0) await new Promise((resolve) => setImmediate(resolve))
  }
}
