/* The least static program: what starting and ending one costs. */
int main(void)
{
    return 0;
}
