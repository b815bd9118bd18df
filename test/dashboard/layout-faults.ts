/**
 * What is wrong with the layout of the page that is shown, in words. It runs in the browser, so it uses nothing from
 * outside of itself.
 */
export function findLayoutFaults(): readonly string[] {
  interface Box {
    readonly node: Text
    readonly left: number
    readonly right: number
    readonly top: number
    readonly bottom: number
  }
  const faults = new Set<string>()
  const quote = (node: Text) => {
    const text = node.data.trim()
    return `"${text.length > 40 ? `${text.slice(0, 40)}…` : text}"`
  }
  const styles = new Map<Element, CSSStyleDeclaration>()
  const styleOf = (element: Element) => {
    const known = styles.get(element) ?? getComputedStyle(element)
    styles.set(element, known)
    return known
  }
  const frames = new Map<Element, DOMRect>()
  const frameOf = (element: Element) => {
    const known = frames.get(element) ?? element.getBoundingClientRect()
    frames.set(element, known)
    return known
  }

  /** The part of a text's box that its ancestors show, having noted what they cut without a sign. */
  const shownPart = (node: Text, rect: DOMRect): Box | undefined => {
    let { left, right, top, bottom } = rect
    let isInline = true
    for (let at = node.parentElement; at !== null && at !== document.body; at = at.parentElement) {
      const style = styleOf(at)
      if (style.overflowX !== 'visible' && style.display !== 'inline') {
        const frame = frameOf(at)
        const isHidden = style.overflowX === 'hidden' || style.overflowX === 'clip'
        // An ellipsis shows only for what is in the very lines of this box.
        const hasSign = style.textOverflow === 'ellipsis' && isInline
        if (isHidden && !hasSign && right > frame.right + 1)
          faults.add(`${quote(node)} is cut without a sign`)
        if (isHidden && bottom - frame.bottom > (rect.bottom - rect.top) / 2 && top < frame.bottom)
          faults.add(`${quote(node)} is cut below`)
        left = Math.max(left, frame.left)
        right = Math.min(right, frame.right)
        top = Math.max(top, frame.top)
        bottom = Math.min(bottom, frame.bottom)
        if (right - left < 1 || bottom - top < 1) return undefined
      }
      if (!style.display.startsWith('inline')) isInline = false
      if (style.position === 'fixed') break
    }
    return { node, left, right, top, bottom }
  }

  // The longest possible times: those of a test are very recent.
  for (const time of document.querySelectorAll('time')) {
    const text = time.firstChild as Text
    text.data = document.documentElement.lang.startsWith('zh') ? '59 分钟前' : '59 minutes ago'
    const cell = time.closest('td')
    if (cell !== null && cell.scrollWidth > cell.clientWidth + 1) faults.add('a time is cut')
  }
  const page = document.documentElement
  for (const table of document.querySelectorAll('.table[data-scrolls]'))
    faults.add(`the table ${table.querySelector('table')!.ariaLabel} is wider than its box`)
  if (page.scrollWidth > innerWidth) faults.add(`the page is ${page.scrollWidth - innerWidth} px too wide`)
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  const range = document.createRange()
  const boxes: Box[] = []
  while (texts.nextNode()) {
    const node = texts.currentNode as Text
    const parent = node.parentElement!
    if (node.data.trim() === '' || parent.closest('option, datalist') || !parent.checkVisibility()) continue
    // Only for screen readers.
    if (parent.closest('.hidden') || styleOf(parent).clipPath !== 'none') continue
    range.selectNodeContents(node)
    for (const rect of range.getClientRects()) {
      const box = rect.width < 1 ? undefined : shownPart(node, rect)
      if (box === undefined) continue
      boxes.push(box)
      const cell = parent.closest('td, th')
      if (cell !== null && (box.right > frameOf(cell).right + 1 || box.left < frameOf(cell).left - 1))
        faults.add(`${quote(node)} leaves its cell`)
    }
  }
  boxes.sort((a, b) => a.top - b.top)
  for (const [nth, one] of boxes.entries()) {
    for (let next = nth + 1; next < boxes.length && boxes[next]!.top < one.bottom; next++) {
      const other = boxes[next]!
      const height = Math.min(one.bottom - one.top, other.bottom - other.top)
      const isBeside = Math.min(one.right, other.right) - Math.max(one.left, other.left) <= 2
      // The boxes of lines are somewhat higher than their letters.
      const isBelow = Math.min(one.bottom, other.bottom) - other.top <= height * 0.4
      if (isBeside || isBelow || one.node === other.node) continue
      faults.add(`${quote(one.node)} and ${quote(other.node)} lie on each other`)
    }
  }
  return [...faults].slice(0, 5)
}
